// Package logcluster holds the two controllers of LogClusters:
//
//   - Reconciler applies the objects of internal/operator/render and paces rolling updates and the
//     removal of brokers.
//   - StatusReconciler writes LogCluster.status, which changes with every partition and requires no
//     apply.
//
// Both decide from the same snapshot (scope.go).
package logcluster
