// Package session contains the state of incremental fetch sessions (KIP-227), for both sides of a
// session. Within a session, a fetch names only the partitions whose request has changed, and the
// response contains only the partitions that have something to report.
//
//   - Follower (follower.go) is the client's side: it stores the requests that a follower last sent
//     to its leader. Kafka calls it FetchSessionHandler.
//   - Sequence and DirtyList (leader.go) are parts of the leader's side. They contain the epoch of
//     the next fetch, and the partitions that may have something to report. Package replica
//     combines them with its locks and its logs.
//   - Cache (cache.go) limits the number and the size of a broker's sessions. It decides which
//     session it evicts for a new one.
//
// The package is pure: no locks, clock, goroutines or I/O. The caller serializes the calls and
// passes the current time to them.
//
// Invariants:
//   - Unless a Follower's epoch is New, it has stored the same requests as the leader's session
//     contains after the leader has processed the fetch in flight. A follower that does not know
//     whether the fetch arrived starts a new session.
//   - A partition that is not in a session's DirtyList has nothing to report beyond the session's
//     last response. So every event that can change a response marks the partition dirty after the
//     change.
package session
