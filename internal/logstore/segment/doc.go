// Package segment is one segment of a log: a data file of record batches, and its offset and time
// indexes, in Apache Kafka's formats (docs/internals/format/segment.md and index-files.md).
//
// # Concurrency of calls
//
// Changes of a segment (Append, Truncate, Seal, Rename, SetModTime, Remove, Close) run one at a
// time. Sync may run concurrently with Append. Reads (Position, PositionForTimestamp, HeaderAt,
// Scan, ranges of File, and the accessors) may run concurrently with everything except Close, which
// the owner calls after the last read. A read concurrent with Truncate may fail.
//
// # Reads without a lock
//
// A reader uses a view, an immutable value behind an atomic pointer (see type view for the proof).
// Append writes the batch first and then publishes the view that includes it.
//
// # Locks and goroutines
//
// Writers share the mutex mu. mu is held during writes to the files, but not during a sync of the
// data file. A read never holds it. The mutex syncing, acquired before mu, admits one sync at a
// time. The package starts no goroutine and reads no clock.
package segment
