// Package snapshots writes, reads and removes the producer snapshots of a log, and rebuilds the
// state of its producers from a snapshot and the batches above it.
//
// The caller holds the lock that excludes other changes of the files of the log (Log.maintain).
// Recovery holds none, because no other goroutine uses the log yet.
package snapshots
