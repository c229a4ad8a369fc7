// Package roll executes rolling updates of a LogCluster's brokers, one step at a time, and lends
// replicas for these updates (spec.rollout.singleReplica).
package roll
