// Package partition contains the controller of Partitions, which elects leaders by the rules of
// internal/placement.
//
// reconciler.go reads the input of an election (electorate) and writes the result; election.go is
// pure and computes the result. The status of a Partition has two writers, the operator and the
// leader, so each writes by compare-and-swap. After a conflict, the event of the other write
// triggers another reconciliation, which uses the new state.
//
// Several workers run at the same time. State between reconciliations is stored in outages.go and
// preferred.go; while either of their locks is held, no other lock is acquired.
package partition
