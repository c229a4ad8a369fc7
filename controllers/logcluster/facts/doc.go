// Package facts contains what the controllers of LogClusters decide from: one snapshot of a
// LogCluster and its resources, and what follows from it alone. It changes nothing.
package facts
