// Package chart tests the dashboards and alerts of the chart: they use metrics that exist
// (docs/metrics.md), and each alert has a runbook. hack/chart-lint.sh checks the manifests, which
// requires Helm.
package chart
