// Package events streams the cleaner's actions to viewers, as the events of GET /api/v1/events.
//
// A Hub keeps the last events in a ring. Streams read the ring at their own pace. A stream that
// falls behind the ring ends, and its client starts again with a snapshot. So a slow client needs
// no additional memory. Events are encoded only once, so ten clients cost as much as one.
//
// # Invariants
//
//   - Without a stream, nothing is polled. From lingerTime after the end of the last stream, the
//     hub ignores passes and steps.
//   - The changes between two successive snapshots or polls of a watched topic are in the ring. So
//     a snapshot and the events after it describe every change.
//
// # Locks
//
// Hub.polling is acquired before Hub.mu, and held while rows are computed. Hub.mu is held only
// briefly.
//
// # Goroutines
//
// The package starts none. Each stream's goroutine can poll, but only one poll takes place within
// pollInterval.
package events
