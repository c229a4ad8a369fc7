// Package topic contains the controller of Topics. It creates the Partitions of a Topic, assigns
// their replicas by internal/placement, and writes Topic.status.
//
// A reconciliation gathers its scope (scope.go), validates it (validation.go), creates and changes
// Partitions (partitions.go) and writes the status (status.go, compaction.go).
//
// State between reconciliations is stored in keyed.Map, which is safe with any number of workers:
// the last known replicas of Partitions (placements.go), and the round of the last status write
// (compaction.go). Nevertheless only one worker runs, because an assignment depends on the number
// of replicas on each broker: two Topics that are assigned at the same time would choose the same
// brokers with the fewest replicas.
package topic
