// Package skew decides which format level the brokers of a LogCluster may use, and whether their
// versions work together. It is pure.
//
// Invariants: the format level never decreases, because files with its formats may exist. When it
// is raised, it is at most the highest level that every broker supports. So any version that
// supports the level of a cluster can replace the brokers of the cluster, even an earlier version.
package skew
