// Package local stores the metadata of a development cluster in one file
// (docs/format/local-metadata.md) and publishes it to the brokers. The file contains the partitions
// in the form of one PartitionSet. The store makes the decisions of the operator and of the brokers
// with internal/metadata/partitionset and internal/placement.
//
// document.go defines the content of the file and its encoding, and partitions.go the part of it
// that is a PartitionSet. sync.go, assign.go, create.go, alter.go and decide.go change the
// document, mostly by pure functions. store.go contains the Store, queue.go makes concurrent
// changes together, brokers.go contains the methods for brokers, and isr.go the ISR changes.
//
// A change computes the new document, writes it, and then publishes it. So a crash cannot revert
// metadata that a broker has received. In particular it cannot revert leader epochs, which brokers
// write into batches.
//
// There are three locks. changing serializes changes and is held while the file is written; readers
// do not acquire it. queue protects the changes that wait for changing, and published the image and
// the brokers' reports; both are held for a few instructions only. changing is acquired before each
// of the others. No lock is held while apply runs.
//
// Run uses the goroutine of its caller. A change that a client requests runs in a goroutine of its
// own, because it waits for the disk and its request may end earlier. Close waits for these
// goroutines.
package local
