// Package inspect reads segment files offline, for `heartwood log dump` and `heartwood log verify`.
// It accepts a file, the directory of a partition, a data directory or a directory of data
// directories, written by Heartwood or by Apache Kafka. It changes no file.
//
// Data files, index files and directories are read as streams. So the memory that the package needs
// depends on the largest batch (an option limits its size), on the number of producers in a
// directory, and on the largest producer snapshot. File contents are never assumed to be valid:
// invalid bytes are printed or reported as problems, and the next file is still read. The package
// starts no goroutine, acquires no lock and reads no clock.
package inspect
