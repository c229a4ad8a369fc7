// Package logcluster contains the controller that runs LogClusters. One reconciliation is:
//
//   - facts: the state of the LogCluster and its resources, read once
//   - apply: the objects of internal/operator/render, and the sizes of volume claims
//   - roll: the next step of a rolling update, if the brokers agree (maystop)
//   - replace: the next step of the replacement of a volume
//   - outcome: the result, from which package status writes the status
//
// Package memory contains the controller's observations between two reconciliations, timed by the
// operator's clock. Package status is a separate controller because the status changes with the
// state of every partition, which requires no apply.
package logcluster
