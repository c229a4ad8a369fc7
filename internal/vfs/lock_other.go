//go:build !linux

package vfs

import "os"

// lockAsJava does nothing where locks that belong to an open file are not to be had: there, a Kafka
// broker is not seen.
func lockAsJava(*os.File) error { return nil }
