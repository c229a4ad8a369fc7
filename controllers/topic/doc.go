// Package topic contains the controller that writes Topic.status. Packages assignment and election
// assign partitions and elect leaders; this controller only reports on the partitions. It also sets
// spec.partitions if a Topic does not specify it.
//
// A reconciliation gathers its scope (scope.go) and computes the status (status.go, problems.go,
// compaction.go). pace.go limits the number of writes: a new Topic costs at most two, and a
// failover that is over within seconds costs none.
//
// State between reconciliations is stored in keyed.Map, which is safe with any number of workers.
package topic
