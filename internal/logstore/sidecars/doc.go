// Package sidecars builds, opens and removes the key sidecars of one log
// (docs/internals/format/keys.md). It builds them from the keys that appends collect in spools, or
// by scanning a segment.
//
// # Locks
//
// A build or a removal holds Set.building, which admits one of them at a time in a log.
// Set.building is held during I/O, so it is a channel: a waiting goroutine can stop waiting when
// its context ends. Slot, which is shared by all logs, is acquired before Set.building. The locks
// of the log are acquired after it: maintain, because no swap may replace the segment while its
// sidecar is published under the final name, and then mu, which guards the spools.
//
// The package starts no goroutine.
package sidecars
