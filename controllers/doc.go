// Package controllers sets up the operator: the controllers that create and update Kubernetes
// objects as LogClusters and Topics require, and report the progress in the status of these
// resources. Each controller is a subpackage (inputs -> results):
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
//  1. A reconciler reads all its input, decides by pure functions, and writes at the end. Its
//     result does not depend on the event that triggered it, and it may miss events.
//  2. A reconciler writes nothing if nothing has changed.
//  3. A Partition's status has two writers, the operator and the leader, and is written by
//     compare-and-swap. After a conflict, the event of the other write triggers another
//     reconciliation. Every other status has one writer.
//
// Goroutines: those of the manager, of reports.Collector, and of the connections in package broker;
// all of them end with the manager. While any lock of these packages is held, no other lock is
// acquired and no I/O is done.
package controllers
