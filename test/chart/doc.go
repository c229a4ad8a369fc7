// Package chart tests the dashboards and alerts of the Helm chart. They must use only metrics in
// docs/operate/metrics.md, and each alert must have a runbook. The package also installs the chart
// with Helm on a real API server, and tests which objects an uninstall keeps. hack/chart-lint.sh
// checks the manifests.
package chart
