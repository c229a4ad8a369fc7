// Package replica manages the partition replicas on a broker. It tracks which partitions this
// broker leads, and in which leader epoch. It appends to the logs of these partitions and reads
// from them, and it copies the logs of partitions that other brokers lead. It decides which
// replicas are in sync, advances high watermarks, and lets requests wait for records or high
// watermarks. docs/internals/replication.md describes the protocol and proves that no acknowledged
// record is lost.
//
//   - Set (set.go) is the set of replicas. The applier (apply.go, apply_partition.go) makes the set
//     match the metadata image.
//   - partition (partition.go) is one replica: its log and its role (role.go). copy_source.go and
//     incarnation.go decide when a log must be discarded and copied again.
//   - leaderState (leader_state.go) is the leadership of a partition in one leader epoch. Its core
//     is package isr, which decides which replicas are in sync and how far the high watermark may
//     advance.
//   - isrUpdater (isr_updater.go) sends ISR updates to the metadata store.
//   - fetcher (fetcher.go, fetcher_request.go, fetcher_response.go, fetcher_disk.go) copies the
//     partitions that one other broker leads. It sends its fetches over a Peer (peer.go). follow.go
//     applies a leader's response to a log.
//   - sessions (sessions.go, fetch_session.go, session_fetch.go) are the fetch sessions (KIP-227)
//     of the consumers and followers that fetch from this broker. Package session contains their
//     pure parts, and the follower's side of a session.
//   - Produce requests (produce.go) and fetches (fetch.go; for followers fetch_follower.go) may
//     have to wait. There is one purgatory for producers, one for consumers and one for followers,
//     each keyed by partition. A coordinator appends and waits through coordinate.go. A produce
//     request that reaches a new leader before the metadata does waits in await_leader.go.
//
// Invariants:
//   - A partition's high watermark never exceeds the durable end offset of any replica in the
//     maximal ISR.
//   - An append with acks=-1 is acknowledged only in the leader epoch in which it was made. If the
//     leader changes, the wait ends with an error.
//   - After a high watermark has advanced or a role has changed, the purgatories are notified. So a
//     waiting request is evaluated after each event that can complete it.
//   - A waiting request holds no logstore.Slice, and so keeps no segment file open.
//   - Every event that can change a fetch response marks the partition dirty in its sessions
//     afterwards. A partition that is not dirty has nothing to add to the session's last response.
//
// Locks, in this order:
//
//  1. fetchers.changing
//  2. partition.changing: held while a role changes, and while a leader's response is applied to
//     the log, which includes I/O
//  3. fetchSession.fetchLock: held by one fetch of the session, even while the fetch waits
//  4. fetchers.mu, fetcher.mu, isrUpdater.mu, sessionCache.mu, and sessionWatch.mu followed by
//     fetchSession.mu
//  5. leaderState.mu, a leaf: no other lock is acquired while it is held
//
// The view of all partitions and each partition's role are immutable values behind atomic pointers.
// Only Apply writes them, from one goroutine.
//
// Goroutines: each purgatory has one, and the isrUpdater has two. For each leader that this broker
// follows there is one fetcher, or two if the leader leads partitions under durability Fsync. Each
// fetcher also has disk workers. Close waits for all of them. Apply starts up to applyConcurrency
// workers and waits for them.
package replica
