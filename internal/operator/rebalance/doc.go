// Package rebalance decides which moves of replicas begin now. It executes the plans of package
// placement/balance within the limits of a LogCluster. The package is pure; controllers/rebalance
// performs its I/O.
//
// A trigger (v1alpha1.RebalanceTrigger) begins a run. The run ends when the plan has no moves left.
// Each decision makes a new plan from the current assignments, in which moves in progress count as
// completed. It begins as many of the plan's first moves as the limits allow. So no plan has to be
// stored: after a restart of the operator, the run continues from the LogCluster's status.
//
// Invariants:
//  1. A broker receives at most spec.rebalance.concurrentPerBroker replicas at a time, and sends as
//     many, including those of reassignments that users have requested.
//  2. No move begins while a broker outside spec.drain is down or has not reported, or the
//     LogCluster is paused.
//  3. A value of the annotation heartwood.dev/rebalance begins one run.
//  4. A drain begins only if all replicas can leave the brokers; until then, all runs treat the
//     brokers as cordoned. It ends when the brokers hold no replicas.
//  5. No replica is copied to a broker whose storage pressure is Reject or higher.
package rebalance
