// Package facts contains what the controllers of LogClusters decide from: one snapshot of a
// LogCluster and its resources, and what follows from it alone. It changes nothing, and
// nothing changes Facts: results of later steps are arguments (Applied). All that follows from the
// partitions comes from one walk over them.
package facts
