// Package chart tests the dashboards and alerts of the Helm chart: they may use only metrics of
// docs/metrics.md, and each alert must have a runbook. It also installs the chart with Helm on a
// real API server, to test what an uninstall keeps. hack/chart-lint.sh checks the manifests.
package chart
