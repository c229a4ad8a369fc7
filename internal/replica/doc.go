// Package replica holds the partitions that live on a broker: it knows which of them this broker leads and in which epoch,
// appends to and reads from their logs, moves their high watermarks, and makes requests wait for them.
//
//   - Set (set.go) is all of them; Apply (apply.go) makes it what the metadata image says.
//   - partition (partition.go) is one log and this broker's part in it.
//   - Produce (produce.go) and Fetch (fetch.go) are the two requests that may have to wait; each has its purgatory, keyed by
//     partition.
//
// Invariants:
//   - A partition's high watermark never exceeds what every in-sync replica has. With one replica that is the log end, right
//     after the append; partitions with more are refused until replication is there.
//   - An append is acknowledged with acks -1 only in the epoch it was made in: a change of leader ends the wait with an error.
//   - Whoever moves a high watermark, or changes a partition's role, notifies both purgatories afterwards. So a waiting request
//     looks again after each event it could wait for.
//   - A request that waits holds no slice, thus no segment file.
//
// Locks: none of its own. The view of all partitions and each partition's role are immutable values behind atomic pointers;
// Apply, called from one goroutine, is their only writer.
//
// Goroutines: those of the two purgatories; Close joins them. Apply has up to sixteen while it takes partitions, and joins them.
package replica
