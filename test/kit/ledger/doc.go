// Package ledger stores the records that a log has acknowledged to producers, and checks that a
// reader finds these records.
//
// It checks the rules of a compacted log. For each key, the last record that the reader finds must
// be the key's last acknowledged record, or a record that was sent later. If a key's last
// acknowledged record is a tombstone, the tombstone can be missing. The offsets in a partition must
// increase. A record that was sent but never acknowledged can be in the log or not.
//
// A Ledger is safe for concurrent use, because kgo reports acknowledgements from its own
// goroutines.
package ledger
