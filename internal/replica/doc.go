// Package replica holds the partitions that live on a broker: it knows which of them this broker
// leads and in which epoch, appends to and reads from their logs, copies those that others lead,
// says who is in sync, moves high watermarks, and makes requests wait for them. docs/replication.md
// has the protocol, and why nothing acknowledged is lost.
//
//   - Set (set.go) is all of them; Apply (apply.go) makes it what the metadata image says.
//   - partition (partition.go) is one log and this broker's part in it.
//   - isr (isr.go) is what a leader knows of its followers, and decides who is in sync and how far
//     the high watermark may go: plain, no lock, no clock. reign (reign.go) is its shell, for one
//     leader epoch.
//   - reviews (review.go) asks the metadata store for other in-sync replicas.
//   - fetcher (fetcher.go, fetcher_ask.go, fetcher_take.go) copies what one other broker leads,
//     over a Peer (peer.go); follow.go does to a log what its leader says. saying.go is what it has
//     said in its fetch session.
//   - session (session.go) is the leader's side of that, and a consumer's: what was said, and what
//     may have news. sessions.go bounds them, session_fetch.go is a fetch.
//   - Produce (produce.go) and Fetch (fetch.go; of followers fetch_replica.go) are the requests
//     that may have to wait; consumers, followers and producers have a purgatory each, keyed by
//     partition.
//
// Invariants:
//   - A partition's high watermark never exceeds what every replica has that is, or may be, in sync
//     on record.
//   - An append is acknowledged with acks -1 only in the epoch it was made in: a change of leader
//     ends the wait with an error.
//   - Whoever moves a high watermark, or changes a partition's role, notifies both purgatories
//     afterwards. So a waiting request looks again after each event it could wait for.
//   - A request that waits holds no slice, thus no segment file.
//   - What could give a partition something to say marks it in its sessions afterwards; one that is
//     not marked has nothing to say to what was said last.
//
// Locks, in this order: fetchers.changing; partition.changing (a role changes, or a leader's answer
// is carried out: over I/O of the log); a session's turn (one fetch of it at a time, also while it
// waits); fetchers.mu, fetcher.mu, reviews.mu, sessions.table.mu, sessions.watch.mu and behind it
// session.mu; reign.mu, a leaf. The view of all partitions and each partition's role are immutable
// values behind atomic pointers; Apply, called from one goroutine, is their only writer.
//
// Goroutines: those of the purgatories; one that changes in-sync replicas; one for each broker that
// is followed, or two if there are partitions under durability Fsync, with workers that wait for
// the disk. Close joins them. Apply has up to sixteen while it takes partitions, and joins them.
package replica
