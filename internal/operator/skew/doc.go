// Package skew decides which format level a LogCluster's brokers can use, and whether the brokers'
// versions are compatible. It is pure.
//
// Invariants: the format level never decreases, because files in its formats may exist. It is
// raised at most to the highest level that every broker supports. So the brokers can be changed to
// any version that supports the cluster's level, even to an earlier version.
package skew
