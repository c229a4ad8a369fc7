// Package lookup finds the records of one key in a log (Find), by the key sidecars of its segments
// and by scans of the others.
//
// It reads a log through its Compaction, acquires no lock and starts no goroutine. A result
// describes one moment: the segments of one list.
package lookup
