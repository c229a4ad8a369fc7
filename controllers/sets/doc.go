// Package sets reads and writes the PartitionSets of LogClusters for the operator's controllers.
//
// reader.go lists the sets of a LogCluster from the cache and decodes each version once. store.go
// implements the interface of internal/metadata/partitionset/commit, whose Writer makes all
// changes: each change is decided for the version that it replaces. keys.go maps events of sets to
// Topics.
//
// All controllers share the decoded sets and must not change them; a change is made to a clone.
// While Reader.mu is held, no other lock is acquired and no I/O is done.
package sets
