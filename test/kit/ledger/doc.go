// Package ledger remembers what a log promised its producers, and tells whether a reader finds it
// kept.
//
// The rules it checks are those of a compacted log: of each key, the reader sees the last
// acknowledged record or a later one that was sent; of a key whose last acknowledged record is a
// tombstone, the tombstone or nothing. Offsets of a partition only grow. A record that was sent but
// never acknowledged may be there or not: that is what no answer means.
//
// A Ledger may be used by several goroutines; kgo calls its promises from its own.
package ledger
