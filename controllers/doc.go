// Package controllers sets up the operator: the controllers that make a Kubernetes cluster match
// its LogClusters and Topics and report the progress in their status. Each controller is a
// subpackage:
//
//	logcluster  LogCluster -> the objects of internal/operator/render, by server-side apply;
//	            StatefulSet, Topics, Partitions -> LogCluster.status (logcluster-status)
//	topic       Topic -> Partitions, assigned by internal/placement; brokers' reports -> Topic.status
//	broker      Leases, pods, connections -> the brokers that are up; notifies partition and
//	            logcluster-status of changes
//	partition   brokers that are up -> leader and leaderEpoch, elected by internal/placement
//
// The other subpackages are shared: watch and index (what triggers a reconciliation and what it
// looks up), brokerstate (which brokers are up), reports (the brokers' reports on compaction),
// laststatus (the status of deleted Partitions), keyed (state between reconciliations), conditions
// and opmetrics.
//
// # Invariants
//
//  1. A reconciler gathers all its input, decides by pure functions, and writes at the end. It does
//     not depend on which event triggered it, nor on receiving every event.
//  2. It writes nothing if nothing has changed.
//  3. A Partition's status has two writers, the operator and the leader, and is written by
//     compare-and-swap. After a conflict, the event of the other write triggers another
//     reconciliation. Every other status has one writer.
//
// Goroutines: the manager's, and those of reports.Collector and of the connections of package
// broker, which end with the manager. All locks are leaves and are never held over I/O.
package controllers
