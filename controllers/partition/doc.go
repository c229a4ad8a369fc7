// Package partition holds the controller of Partitions, which elects leaders by
// internal/placement.
//
// reconciler.go gathers an electorate and writes the result; election.go is pure and computes it.
// The status of a Partition has two writers, the operator and the leader, so each writes by
// compare-and-swap. After a conflict, the event of the other write triggers another reconciliation,
// which decides from the new state.
//
// Several workers run. State between reconciliations: outages.go and preferred.go, each with a lock
// that is a leaf.
package partition
