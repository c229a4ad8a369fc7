// Package commit writes changes of PartitionSets to the API server, by compare-and-swap on the
// set's resourceVersion. Operator, brokers and the simulation use it.
//
// All changes of a set that are requested while a write of this set is in progress go into the next
// write (group commit). A change is a function of the decoded set. If another writer has changed
// the set meanwhile, the writer reads the set and calls the function again, so that every change is
// decided on the version that it replaces. Writers that conflict wait for a random time, as long as
// the API server takes for a write, and longer with each further conflict; and the more brokers a
// cluster has, the fewer sets each of them writes at once (ADR 0255, test/sim/scale).
//
// Safety: a compare-and-swap that arrives late, when its sender has given it up, fails if the set
// has been changed at all since the version on which it was decided, even if only other partitions
// have changed. A change whose context has ended is not written any more, and a write takes at most
// Options.Timeout. So nothing that a caller has given up is written later than Options.Timeout
// after that.
//
// queue.go collects changes and decides which set is written next; write.go makes the writes. One
// goroutine runs for each set that is being written, and ends when the set has no pending changes.
// The only lock, Writer.mu, is not held during requests or calls of changes.
package commit
