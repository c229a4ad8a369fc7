// Package election contains the controller of PartitionSets, which elects leaders by the rules of
// internal/placement. It decides about all partitions of a set and makes one write of its status.
//
// The status of a set has several writers, the operator and the leaders, so each writes by
// compare-and-swap (internal/metadata/partitionset/commit). After a conflict, the decision is made
// again on the stored version.
//
// reconciler.go gathers the input and writes the result. settling.go decides which ISR changes are
// left to the leaders for a while. memory.go stores the state between reconciliations of a set in a
// keyed.Map: the beginnings of outages (outages.go), and since when preferred leaders could lead
// (preferred.go). Several workers run at the same time. While the lock of settling.go is held, no
// other lock is acquired.
package election
