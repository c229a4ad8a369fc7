// Package ledger records what a log has acknowledged to its producers, and checks whether a reader
// finds it.
//
// It checks the rules of a compacted log. Of each key the reader sees the last acknowledged record,
// or a later one that was sent. If the last acknowledged record of a key is a tombstone, the reader
// sees the tombstone or nothing. The offsets of a partition only increase. A record that was sent
// but never acknowledged may be in the log or not.
//
// A Ledger may be used concurrently; kgo calls its promises from its own goroutines.
package ledger
