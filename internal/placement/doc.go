// Package placement decides which brokers hold a partition and which of them leads it. The operator
// and `heartwood dev` both ask here, so that a cluster on a laptop decides as one on Kubernetes
// does.
//
// Everything is a pure function of its arguments: asked again with the same ones, in any order of
// the brokers, it answers the same. Nothing is moved for balance: a placement that was made stays
// until somebody asks for another.
//
// What Assign promises, in this order:
//  1. a partition's replicas are on different brokers, and on as many racks as there are, up to the
//     number of replicas;
//  2. without racks, the brokers' shares of one call differ by one replica at most;
//  3. what does not divide evenly goes to the brokers that hold least already;
//  4. leaders go to the replica that leads least in this call, so leading spreads as holding does.
//
// Fit is for what is placed already, when the number of replicas changes or brokers go: it moves as
// little as it can.
//
// Decide is the election of one partition, and all that goes with it: who is in sync, reassignment,
// epochs (decide.go; ChangeISR, the leader's own say, is in partition.go). Its promises are held
// against a model of logs and brokers in decide_model_test.go:
//  1. nobody leads who lacks a record that was acknowledged by all in sync, unless nobody is left
//     who has it and came back whole, or the topic, or somebody, agreed;
//  2. an epoch has one leader, in one incarnation; whenever that changes, also to none, the epoch
//     grows by one, and never otherwise;
//  3. who has the records is never forgotten: the ISR does not become empty.
package placement
