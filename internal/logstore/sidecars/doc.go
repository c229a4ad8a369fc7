// Package sidecars builds, opens and removes the key sidecars of one log (docs/format/keys.md):
// from the keys that appends collect in spools, or from a scan of a segment.
//
// # Locks
//
// A build or a removal holds Set.building, one at a time in a log. It is held during I/O, so it is
// a channel: a waiter can stop waiting when its context ends. Slot, the slot of all logs, is
// acquired before it. The locks of the log are acquired after it: maintain, to publish a sidecar
// under its final name while no swap replaces its segment, and then mu, which guards the spools.
//
// The package starts no goroutine.
package sidecars
