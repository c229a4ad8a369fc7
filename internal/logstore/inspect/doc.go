// Package inspect reads segment files offline, for `heartwood log dump` and `heartwood log verify`.
// It accepts a file, the directory of a partition, a data directory or a directory of data
// directories, written by Heartwood or by Apache Kafka, and changes nothing.
//
// Memory is bounded by the largest batch, whose size an option limits: data files, index files and
// directories are read as streams. The producers of a directory are held in memory, and one
// producer snapshot at a time. File contents are never assumed to be valid: invalid bytes are
// printed or reported as findings, and the next file is read nevertheless. The package has no
// goroutine, no lock and no clock.
package inspect
