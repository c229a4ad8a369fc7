// Package roll executes rolling updates of the brokers of a LogCluster, one step at a time, and
// lends replicas for them (spec.rollout.singleReplica).
package roll
