// Package sim plays a replicated cluster in one process and one testing/synctest bubble, and looks
// whether it keeps what it promises.
//
// Real are the stores with their cleaners (on disks in memory that lose what was not synced), the
// replica sets with their fetchers, and the elections of internal/placement. Simulated are the
// network between brokers, the API server with its compare-and-swap (it loses answers, is late, and
// single brokers are cut off from it), the clients, and who breaks all this (faults_test.go).
//
// oracle_test.go has the invariants. They are looked at many times a second of the bubble's time,
// and again once everything is healed:
//
//   - a record acknowledged with acks=all stays while one in-sync replica keeps it, and never comes
//     twice;
//   - what was below a high watermark once never changes and never goes, but by retention and
//     cleaning; nothing deleted comes back, neither a key nor what a client was told that
//     DeleteRecords took; no log gives up what retention should keep;
//   - nothing is cut off below a high watermark, and nobody in sync begins anew (witness_test.go);
//   - every replica has the same record at an offset of a leader epoch; in the end, all have the
//     same;
//   - no high watermark is beyond the end of a living in-sync replica; nor do the ends that clients
//     are told go back, high watermark and last stable offset;
//   - a producer's last five batches are known to whoever leads, whatever has happened since
//     (retries_test.go);
//   - a reader of committed data gets all of a transaction that was committed, and nothing of
//     others; nothing is superseded by what was not committed (transactions_test.go);
//   - a leader epoch has one leader; an acknowledgement of a leader that is one no more is as good
//     as any other;
//   - the history of each key is one of a register (porcupine).
//
// Clients write with acks=all and acks=1, send again what was acknowledged, read from the leader
// and from followers (KIP-392), and delete records; records expire by time and by size.
// Transactions are written straight into the leaders' logs, for there is no coordinator yet.
// Brokers are added, drained and lost for ever. In one of five runs followers and consumers speak
// Kafka's protocol through internal/wire and internal/handler; in the others fetch sessions meet
// leaders that forget them, and requests that arrive twice. Not played are: the local store,
// producers over the wire, groups, and disks that fail.
//
// What a simulation is worth shows when the code is broken on purpose. Each of these was found
// within some hundred seeds, most within a few: a high watermark that does not wait for the maximal
// ISR; members that came back uncleanly and stay; logs that are not cut where they part; acks=all
// that does not wait; a follower that tells a consumer who is further than itself that their logs
// part; one that deletes a record more than its leader; a replica that was taken off and put back,
// and keeps its log; one that comes into sync with what its leader has deleted; producer snapshots
// with the last batch alone; a last stable offset that does not wait until a marker is replicated;
// a replica that tells how far it has cleaned, garbage that it left not counted, in the place of
// how far its tombstones are lonely. Faults of ours that it found, and that no other test had:
// docs/adr/0185, 0186, 0200, 0206 and 0207.
//
// A seed says which faults come when, until the next kind of fault is added: so what one has found
// is kept as a test of the package that was at fault, and not as a seed. `go test ./test/sim
// -sim.seed=N -v` plays one again. Which of several goroutines runs first at one moment of the
// bubble's time is Go's to decide, so a run is repeated closely, not exactly.
package sim
