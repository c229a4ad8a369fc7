// Package ledger stores which records a log has acknowledged to producers, and checks that a reader
// finds these records.
//
// It checks the rules of a compacted log. For each key the last record that the reader finds must
// be the last acknowledged record of the key, or a record that was sent later. If the last
// acknowledged record of a key is a tombstone, the tombstone may be missing too. The offsets of a
// partition must increase. A record that was sent but never acknowledged may be in the log or not.
//
// A Ledger is safe for concurrent use, because kgo reports acknowledgements from its own
// goroutines.
package ledger
