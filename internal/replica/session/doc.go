// Package session holds the state of incremental fetch sessions (KIP-227), for both ends. In a
// session, a fetch names only the partitions whose request has changed, and its response only those
// with something to report.
//
//   - Follower (follower.go) is the client end: it stores the requests that a follower last sent to
//     its leader. Kafka calls it FetchSessionHandler.
//   - Sequence and DirtyList (leader.go) are parts of the leader's end: the epoch of the next
//     fetch, and the partitions that may have something to report. package replica combines them
//     with its locks and its logs.
//   - Cache (cache.go) bounds the sessions of a broker. It decides which one is evicted for a new
//     one.
//
// The package is pure: no locks, clock, goroutines or I/O. The caller serializes the calls and
// passes the time in.
//
// Invariants:
//   - While a Follower's epoch is not New, the requests that it has stored as sent are those that
//     the leader's session contains once the fetch in flight has arrived. A follower that cannot
//     know whether the fetch arrived starts a new session.
//   - A partition that is not in a session's DirtyList has nothing to report beyond its last
//     response. So every event that can change a response marks the partition dirty, after the
//     change.
package session
