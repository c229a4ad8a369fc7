// Package sim simulates a replicated cluster under faults, in one process and one testing/synctest
// bubble, and checks its invariants.
//
// The stores, with their cleaners, are real, on disks in memory that lose what was not synced; so
// are the replica sets with their fetchers, and the elections of internal/placement. The network
// between brokers, the API server with its compare-and-swap (it loses answers, delays writes, and
// single brokers are disconnected from it), the clients and the faults (faults_test.go) are
// simulated.
//
// The oracle (oracle_test.go, check_test.go) checks the invariants many times a second of simulated
// time, and again after all faults have ended:
//
//   - A record acknowledged with acks=all remains while one in-sync replica keeps it, and is never
//     duplicated.
//   - A record that was below a high watermark never changes, and is removed only by retention and
//     cleaning. No deleted key returns, and no record whose deletion DeleteRecords has confirmed.
//     No log deletes what retention must keep.
//   - No log is truncated below its high watermark, and no ISR member discards its log
//     (log_watcher_test.go).
//   - All replicas have the same record at an offset of a leader epoch; in the end all have the
//     same records.
//   - No high watermark exceeds the log end of a live ISR member. The high watermark and the last
//     stable offset that clients receive do not decrease.
//   - Every leader recognizes a producer's last five batches, whatever has happened since
//     (retries_test.go).
//   - A read_committed consumer receives all records of a committed transaction, and none of
//     others. No record is superseded by one of a transaction that was not committed
//     (transactions_test.go).
//   - A leader epoch has one leader. An acknowledgement of a deposed leader is as binding as any
//     other.
//   - The history of each key is that of a register (porcupine).
//
// Clients produce with acks=all and acks=1, repeat acknowledged batches, read from the leader and
// from followers (KIP-392), and delete records. Records expire by time and by size. Transactions
// are written directly to the leaders' logs, because there is no transaction coordinator yet.
// Brokers are added, drained and lost permanently. In one of five runs followers and consumers use
// Kafka's protocol through internal/wire and internal/handler; in the others leaders evict fetch
// sessions, and requests arrive twice. Not simulated are the local metadata store, producers over
// the wire, consumer groups, and disk errors.
//
// The value of a simulation shows when the code is broken on purpose. Each of these faults was
// found within some hundred seeds, most within a few:
//
//   - a high watermark that does not wait for the maximal ISR
//   - members that return after a crash and remain in the ISR
//   - diverging logs that are not truncated
//   - acks=all that does not wait
//   - a follower that reports a divergence to a consumer that has read more than it has copied
//   - a follower that deletes one record more than its leader
//   - a replica that was removed and added again, and keeps its log
//   - a replica that joins the ISR with records that its leader has deleted
//   - producer snapshots with the last batch only
//   - a last stable offset that does not wait for the replication of a marker
//   - a replica that reports how far it has cleaned, without the garbage that it left, instead of
//     its tombstone-clean offset
//
// docs/adr/0185, 0186, 0200, 0206 and 0207 describe faults that the simulation found and no other
// test had.
//
// A seed determines which faults occur when, until a new kind of fault is added. So a fault that a
// seed has found is kept as a test of the faulty package, and not as a seed. `go test ./test/sim
// -sim.seed=N -v` runs one seed again. The scheduling of goroutines at the same moment of simulated
// time is up to Go, so a run is repeated closely, not exactly.
package sim
