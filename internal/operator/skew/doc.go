// Package skew decides which format level the brokers of a LogCluster may use, and whether their
// versions work together. It is pure.
//
// Invariants: the format level never falls, as files with its formats may exist, and is at most the
// highest level that every broker supports when it is raised. So a version that supports the level
// of a cluster can replace the brokers of the cluster, also an earlier version.
package skew
