// Package chart tests what the chart ships besides manifests: that dashboards and alerts speak of
// metrics that exist (docs/metrics.md), and that each alert has its runbook. hack/chart-lint.sh
// checks the manifests, for which it needs Helm.
package chart
