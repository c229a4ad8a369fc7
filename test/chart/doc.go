// Package chart tests the dashboards and alerts of the Helm chart: they may use only metrics of
// docs/metrics.md, and each alert must have a runbook. hack/chart-lint.sh checks the manifests,
// which requires Helm.
package chart
