// Package events streams what the cleaner does to viewers: the events of GET /api/v1/events.
//
// A Hub keeps the last events in a Ring. Streams read the ring at their own pace. A stream that
// falls behind the ring ends, and its client begins again with a snapshot. So a slow client costs
// no memory, and ten clients cost what one does: events are encoded once.
//
// # Invariants
//
//   - Without a stream nothing is polled, and lingerTime after the last stream has ended the hub
//     ignores passes and steps.
//   - The rows of a watched topic are those of its last snapshot or poll, with the changes that the
//     ring contains in between. So a snapshot and the events that follow it describe every change.
//
// # Locks
//
// Hub.polling is acquired before Hub.mu, and held while rows are computed. Hub.mu is held for
// moments.
//
// # Goroutines
//
// The package starts none. The goroutine of any stream polls, at most once in pollInterval.
package events
