// Package controllers is the operator: it brings the cluster to what LogClusters and Topics ask
// for, and says in their status how far it is.
//
//	logcluster         LogCluster -> the objects of internal/operator/render, by server-side apply
//	logcluster-status  StatefulSet, Topics, Partitions -> LogCluster.status
//	topic              Topic -> Partitions, placed by internal/placement; brokers' reports -> Topic.status
//	broker             Leases -> which brokers are up; tells partition about each change
//	partition          brokers that are up -> leader and leaderEpoch, elected by internal/placement
//
// Each reconciler gathers all it looks at, decides by pure functions, and writes at the end;
// nothing depends on which event came, or on none having been missed. Nothing is written when
// nothing changed. A Partition's status has two writers, the operator and the leader, so it is
// written by compare-and-swap; who loses sees the other's change as an event and decides again.
// Every other status has one writer.
//
// Goroutines: the manager's, and those of reporter (reports.go) and connections (connections.go),
// which end with the manager. Locks: brokers.mu, connections.mu, reporter.mu and outages.mu, all
// leaves, never held over I/O.
package controllers
