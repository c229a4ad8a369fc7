// Package dashboards tests the chart's dashboards and alerts on real software: Prometheus scrapes
// brokers and an operator, and Alertmanager receives the alerts. `make dashboards` runs it, in
// about 13 minutes. It needs Debian's packages prometheus and prometheus-alertmanager, and the
// permission to create mount namespaces. Without them, the test is skipped with a message.
//
// Brokers and operator are processes of the built binary. Their API server is real (envtest).
// Envtest has no StatefulSet controller and no kubelet. kubelet_test.go replaces them and runs the
// command of the container that the operator rendered. Prometheus attaches the same labels as the
// chart's PodMonitors.
//
// The scenario (scenario_test.go) produces every state that a dashboard or an alert shows. It uses
// several LogClusters, because one fault must not hide another:
//   - main (scenario_test.go): load, slow passes, wrong passwords, a cleaner without workers, a
//     killed broker, an unreachable API server;
//   - pair (pair_test.go): moves of replicas to a broker that crashes and stays away, a transaction
//     whose partition has too few in-sync replicas, partitions without a leader, a partition on a
//     read-only file system;
//   - single (single_test.go): a restored log with an open transaction, a damaged segment, a
//     cleaner that waits for itself, few file descriptors;
//   - full (full_test.go): a volume that fills;
//   - expiring and invalid (faults_test.go), which have no brokers: certificates that expire, a
//     rolling update that is stuck, a spec that cannot be applied.
//
// Then
//   - each query of each panel must have had data, within the range of its unit, with distinct
//     legends; each variable must have values; each name in a transformation must exist;
//   - each alert must have reached Alertmanager, about the LogCluster whose state is to raise it,
//     and none while all clusters were healthy. For the test the rules wait seconds where they wait
//     minutes; alerts_test.go lists what else differs.
//
// With PICTURES=1 the test also draws the panels of each dashboard to docs/pictures.
package dashboards
