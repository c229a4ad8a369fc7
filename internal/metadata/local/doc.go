// Package local stores the metadata of a development cluster in one file
// (docs/internals/format/local-metadata.md) and publishes it to the brokers. The file contains the
// partitions in the form of one PartitionSet. With internal/metadata/partitionset and
// internal/placement, the store makes the decisions that the operator and the brokers make on
// Kubernetes.
//
// document.go defines the content of the file and its encoding, and partitions.go defines the part
// of the file that is a PartitionSet. sync.go, assign.go, create.go, alter.go and decide.go change
// the document, mostly by pure functions. store.go contains the Store. queue.go combines concurrent
// changes into one write. brokers.go contains the methods for brokers, and isr.go contains the ISR
// changes.
//
// A change computes the new document, writes it, and then publishes it. So a crash cannot revert
// metadata that a broker has received. In particular it cannot revert leader epochs, which brokers
// write into batches.
//
// There are three locks. changing serializes changes and is held while the file is written; readers
// do not acquire it. queue guards the changes that wait for changing, and published guards the
// image and the brokers' reports. Both are held only for a few instructions. changing is acquired
// before each of the others. No lock is held while apply runs.
//
// Run uses its caller's goroutine. A change that a client requests runs in a separate goroutine,
// because the request may end while the change waits for the disk. Close waits for these
// goroutines.
package local
