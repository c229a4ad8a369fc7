// Package commit writes changes of PartitionSets to the API server, by compare-and-swap on the
// set's resourceVersion. The operator, the brokers and the simulation use it.
//
// All changes of a set that are requested while a write of this set is in progress are part of the
// next write (group commit). A change is a function that modifies the decoded set. If another
// writer has changed the set in between, the writer reads the set and calls the function again. So
// every change is decided on the basis of the version that it replaces. After a conflict a writer
// waits for a random time. Its maximum is the duration of the write, and doubles with each further
// conflict. The more brokers a cluster has, the fewer sets each of them writes at once (ADR 0255,
// test/sim/scale).
//
// Safety: a compare-and-swap may arrive late, after its sender has abandoned it. It fails if the
// set has changed in any way since the version on which it was decided, even if only other
// partitions have changed. Once a change's context has ended, no new write contains the change, and
// a write takes at most Options.Timeout. So an abandoned change is written at most Options.Timeout
// after it was abandoned.
//
// queue.go collects changes and decides which set is written next; write.go makes the writes. One
// goroutine runs for each set that is being written, and ends when the set has no pending changes.
// The only lock, Writer.mu, is not held during requests or calls of changes.
package commit
