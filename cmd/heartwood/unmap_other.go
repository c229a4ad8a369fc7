//go:build !linux

package main

// unmapExecutable does nothing here.
func unmapExecutable() error { return nil }
