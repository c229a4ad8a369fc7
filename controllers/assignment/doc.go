// Package assignment contains the controller that assigns partitions to brokers. It reconciles
// LogClusters, and one pass handles all Topics of a LogCluster. Therefore many new Topics cost only
// one write for each PartitionSet.
//
// reconciler.go gathers the input, plan.go, orphans.go and removal.go make the decisions (pure
// functions), and write.go writes them. sets.go creates missing PartitionSets, and deletes the
// PartitionSets of deleted LogClusters.
//
// Invariants:
//  1. The state of a partition is removed before its assignment. So an assignment without a state
//     is always a new partition without records.
//  2. The entry of a partition whose records are to be deleted is removed only after a read from
//     the API server itself has proved that the Topic does not exist: the cache may be outdated.
//  3. A change of an assignment is written only if the entry has not changed since the decision.
//  4. In a new LogCluster, partitions are assigned when the racks of its brokers are known
//     (racks.go), because an assignment is permanent.
//  5. Replicas leave brokers that are to be removed only if they fit on the disks of the others
//     (removal.go), because all of them begin to move at once.
//
// Only one worker runs, because an assignment depends on the number of replicas on each broker: two
// concurrent passes would both choose the brokers that have the fewest replicas.
package assignment
