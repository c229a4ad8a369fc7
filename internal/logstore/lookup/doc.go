// Package lookup finds the records of one key in a log (Find), using the segments' key sidecars,
// and scans of segments without a sidecar.
//
// It reads a log through the log's Compaction, acquires no lock and starts no goroutine. A result
// is a consistent snapshot of the log: it describes the segments of one segment list.
package lookup
