// Package topic holds the controller of Topics. It creates the Partitions of a Topic, assigns their
// replicas by internal/placement, and writes Topic.status.
//
// A reconciliation gathers its scope (scope.go), validates it (validation.go), creates and changes
// Partitions (partitions.go) and writes the status (status.go, compaction.go).
//
// State that is kept between reconciliations: the last known replicas of Partitions (placements.go)
// and the round of the last status write (compaction.go). Both are keyed.Map and safe with any
// number of workers. One worker runs nevertheless: an assignment counts the replicas of each
// broker, and two Topics that are assigned at the same time would both choose the emptiest.
package topic
