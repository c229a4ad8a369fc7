// Package skew decides which format level a LogCluster's brokers can use, and whether the brokers'
// versions are compatible. It is pure.
//
// Invariants: the format level never decreases, because files with its formats may exist. It is
// raised at most to the highest level that every broker supports. So any version that supports a
// cluster's level can replace the cluster's brokers, even an earlier version.
package skew
