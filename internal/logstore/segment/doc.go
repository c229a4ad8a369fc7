// Package segment is one segment of a log: a data file of record batches, and its offset and time
// indexes, in Apache Kafka's formats (docs/format/segment.md and index.md).
//
// # Who may do what
//
// One goroutine at a time changes a segment: Append, Truncate, Seal, Rename, SetModTime, Remove,
// Close. Sync may run beside Append. Reads (Position, PositionForTimestamp, HeaderAt, Scan, ranges
// of File, and the accessors) may run beside all of these but Close, which the owner calls when the
// last reader is gone; a read beside Truncate may fail.
//
// # Why a read needs no lock
//
// What a reader may see is a view: an immutable value behind an atomic pointer (type view, where
// the proof stands). Append writes the batch first and publishes the view that counts it
// afterwards.
//
// # Locks and goroutines
//
// There is one mutex for the writers. It is held over writes of the files, but neither over a sync
// of the data file nor by any read. Another one, taken before it, lets one sync at a time run. The
// package starts no goroutine and reads no clock.
package segment
