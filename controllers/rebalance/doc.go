// Package rebalance contains the controller that moves replicas between brokers. It reconciles
// LogClusters.
//
// gather.go reads the partitions, the brokers' reports and the racks; internal/operator/rebalance
// makes the decisions. reconciler.go writes the assignments into the PartitionSets. An assignment
// is written only if the stored assignment is still the one on which the decision is based. It also
// passes the state of the run to the writer of the status (controllers/conditions).
//
// Only one worker runs, because the decisions on a LogCluster depend on each other. While a run is
// in progress, each change of a PartitionSet causes a decision. Events are coalesced, and decisions
// take at most a tenth of the worker's time.
package rebalance
