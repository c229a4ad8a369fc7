// Package logcluster contains the two controllers of LogClusters:
//
//   - Reconciler applies the objects of internal/operator/render, and decides when the next broker
//     may be restarted or removed.
//   - StatusReconciler writes LogCluster.status. It is a separate controller because the status
//     changes with the state of every partition, which requires no apply.
//
// Both decide from the same snapshot of a LogCluster and its resources (facts).
package logcluster
