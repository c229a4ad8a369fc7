// Package cleannow executes the annotation heartwood.dev/clean-now on one broker. It owns the state
// of each annotated replica, and the file clean-now.json in the data directory, which stores the
// completed annotation values.
//
// Tasks (tasks.go) requests passes from the cleaner through the two functions in Cleaner; file.go
// reads and writes the file. The caller passes metadata images to Update and runs Run.
package cleannow
