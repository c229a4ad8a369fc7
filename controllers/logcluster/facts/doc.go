// Package facts contains the input for the decisions of the LogCluster controllers: one snapshot of
// a LogCluster and its resources, and the values derived from this snapshot alone. The package
// changes nothing, and nothing changes Facts: results of later steps are passed as arguments
// (Applied). A single walk over the partitions computes everything that is derived from them.
package facts
