// Package local stores the metadata of a cluster that runs in one process in one file
// (docs/format/local-metadata.md), and publishes it to the brokers of that process. It makes the
// same decisions as the operator, with internal/placement.
//
// document.go is the content of the file and its codec. sync.go, create.go, alter.go and decide.go
// are mostly pure changes of it. store.go is the Store, brokers.go its part for brokers, isr.go
// their ISR changes.
//
// Order of a change: compute the new document, write it, publish it. So a crash cannot revert
// metadata that a broker has seen, in particular leader epochs, which brokers write into batches.
//
// Locks, in this order: changing, published. changing serializes changes and is held while the file
// is written; readers do not take it. published guards what readers see, for a few instructions.
// Neither is held while apply runs.
//
// The package has no goroutine of its own: Run runs in its caller's.
package local
