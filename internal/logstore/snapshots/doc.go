// Package snapshots writes, reads and removes the producer snapshots of a log, and rebuilds the
// producer state from a snapshot and the batches above it.
//
// The caller holds the lock that excludes other changes of the log's files (Log.maintain). Recovery
// holds no lock, because no other goroutine uses the log yet.
package snapshots
