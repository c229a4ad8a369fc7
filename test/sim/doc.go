// Package sim plays a replicated cluster in one process and one testing/synctest bubble, and looks whether it keeps what it promises.
//
// Real are the stores with their cleaners (on disks in memory that lose what was not synced), the replica sets with their fetchers, and
// the elections of internal/placement. Simulated are the network between brokers, the API server with its compare-and-swap (it loses
// answers, is late, and single brokers are cut off from it), the clients, and who breaks all this (faults_test.go).
//
// oracle_test.go has the invariants. They are looked at many times a second of the bubble's time, and again once everything is healed:
//
//   - a record acknowledged with acks=all stays while one in-sync replica keeps it, and never comes twice;
//   - what was below a high watermark once never changes and never goes, but by retention and cleaning; nothing deleted comes back;
//   - nothing is cut off below a high watermark, and nobody in sync begins anew (witness_test.go);
//   - every replica has the same record at an offset of a leader epoch; in the end, all have the same;
//   - no high watermark is beyond the end of a living in-sync replica; nor does the end that clients are told go back;
//   - a leader epoch has one leader; an acknowledgement of a leader that is one no more is as good as any other;
//   - the history of each key is one of a register (porcupine).
//
// Clients write with acks=all and acks=1, read from the leader and from followers (KIP-392), and delete records. Not played are: changes of
// the number of brokers, retention by time and size, transactions (brokers refuse them), the local store, and the wire with its handler; fetch sessions of
// followers are, with leaders that forget them and requests that arrive twice.
//
// What a simulation is worth shows when the code is broken on purpose. Each of these was found, most within five seeds, the last of them at
// seed 64: a high watermark that does not wait for the maximal ISR; members that came back uncleanly and stay; logs that are not cut where they
// part; acks=all that does not wait; a follower that tells a consumer who is further than itself that their logs part; one that deletes a
// record more than its leader; a replica that was taken off and put back, and keeps its log.
//
// A seed says which faults come when. `go test ./test/sim -sim.seed=N -v` plays one again. Which of several goroutines runs first at one
// moment of the bubble's time is Go's to decide, so a run is repeated closely, not exactly.
package sim
