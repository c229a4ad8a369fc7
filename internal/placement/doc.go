// Package placement decides which brokers hold a partition and which of them leads it. The operator and `heartwood dev` both
// ask here, so that a cluster on a laptop decides as one on Kubernetes does.
//
// Everything is a pure function of its arguments: asked again with the same ones, in any order of the brokers, it answers the
// same. Nothing is moved here: a placement that was made stays until somebody asks for another.
//
// What Assign promises, in this order:
//  1. a partition's replicas are on different brokers, and on as many racks as there are, up to the number of replicas;
//  2. without racks, the brokers' shares of one call differ by one replica at most;
//  3. what does not divide evenly goes to the brokers that hold least already;
//  4. leaders go to the replica that leads least in this call, so leading spreads as holding does.
package placement
