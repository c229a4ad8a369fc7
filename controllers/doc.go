// Package controllers sets up the operator: the controllers that create and update the Kubernetes
// objects of LogClusters and Topics, and report the progress in these resources' status. Each
// controller is a subpackage (inputs -> results):
//
//	logcluster  LogCluster -> the objects of internal/operator/render, by server-side apply;
//	            StatefulSet, Topics, PartitionSets -> LogCluster.status (logcluster-status)
//	assignment  LogCluster, Topics -> spec of PartitionSets, by internal/placement
//	election    PartitionSet, LogCluster, Topics, brokers that are up -> its status: leaders,
//	            elected by internal/placement
//	topic       PartitionSets, brokers' reports -> Topic.status
//	broker      Leases, pods, connections -> the brokers that are up; notifies election, topic and
//	            logcluster-status of changes
//
// The other subpackages are shared: watch and index (what triggers a reconciliation and what it
// looks up), sets (reads and writes PartitionSets), refusal (which Topics are refused), brokerstate
// (which brokers are up), reports (the brokers' reports on compaction), laststatus (the content of
// deleted PartitionSets), keyed (state between reconciliations), conditions and opmetrics.
//
// # Invariants
//
//  1. A reconciler reads all its input, decides by pure functions, and writes at the end. Its
//     result does not depend on the event that triggered it, and it may miss events.
//  2. A reconciler writes nothing if nothing has changed.
//  3. A PartitionSet has several writers, the operator and the leaders, and is written by
//     compare-and-swap. After a conflict, the change is decided again on the stored version. Every
//     other status has one writer.
//
// The manager, reports.Collector, the writer in package sets, and the connections in package broker
// start goroutines. All of them end with the manager. While any lock of these packages is held, no
// other lock is acquired and no I/O is done.
package controllers
