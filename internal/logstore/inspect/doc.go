// Package inspect reads segment files offline: what `heartwood log dump` and `heartwood log verify`
// do. It knows a file, a partition's directory, a data directory and a directory of data
// directories, written here or by Apache Kafka, and changes nothing.
//
// Memory is bounded by the largest batch, and that by an option: data files, index files and
// directories are read as streams. The producers of a directory are held in memory, and one
// producer snapshot at a time. Nothing in a file is believed: bad bytes are printed or counted as
// findings, and never stop the look at the next file. No goroutine, no lock, no clock.
package inspect
