// Package dashboards tests the chart's dashboards and alerts on real software: Prometheus scrapes
// brokers and an operator, and Alertmanager receives the alerts. `make dashboards` runs it, in
// about five minutes. It needs Debian's packages prometheus and prometheus-alertmanager, and the
// right to make mount namespaces. Without them the test is skipped, and says so.
//
// Brokers and operator are processes of the built binary. Their API server is real (envtest); what
// envtest lacks, the controller of StatefulSets and the kubelet, is replaced by kubelet_test.go: it
// runs the command of the container that the operator rendered. Prometheus attaches the labels that
// the chart's PodMonitors attach.
//
// The scenario (scenario_test.go, faults_test.go) makes every state that a dashboard shows. Then
//   - each query of each panel must have had data, within the range of its unit, with distinct
//     legends; each variable must have values; each name in a transformation must exist;
//   - each alert that the scenario raises must have reached Alertmanager, and none while the
//     cluster was healthy. For the test the rules wait seconds where they wait minutes;
//     alerts_test.go lists what else differs, and the alerts that the scenario does not raise.
//
// With PICTURES=1 the test also draws the panels of each dashboard to docs/pictures.
package dashboards
