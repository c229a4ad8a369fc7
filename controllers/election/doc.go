// Package election contains the controller of PartitionSets, which elects leaders according to the
// rules of internal/placement. It makes the decisions for all partitions of a PartitionSet ("set"),
// and writes the set's status once.
//
// A set's status has several writers, the operator and the leaders. So each of them writes with
// compare-and-swap (internal/metadata/partitionset/commit). After a conflict, the decision is made
// again on the basis of the stored version.
//
// reconciler.go gathers the input and writes the result. settling.go decides which ISR changes the
// operator leaves to the leaders for a limited time. memory.go stores the state between
// reconciliations of a set in a keyed.Map: the start times of outages (outages.go), and the times
// since which preferred leaders could lead (preferred.go). Several workers run at the same time.
// While the lock of settling.go is held, no other lock is acquired.
package election
