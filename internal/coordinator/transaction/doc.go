// Package transaction implements the transactional ids of one partition of __transaction_state
// (KIP-98): producer ids and epochs, the partitions of each transaction, and its outcome. It is a
// deterministic state machine without goroutines, locks, clock, I/O or randomness. The time is an
// argument, timers are requested through Timers, and new producer ids through Config.ProducerID.
// Packages coordinator and coordinator/runtime drive it.
//
// The phases of a transactional id:
//
//	Empty, Complete* -- AddPartitions --> Ongoing -- EndTxn, timeout, InitProducerId --> Prepare*
//	      ^                                                                                |
//	      +---- all partitions have acknowledged their marker (Complete*) ------------------+
//
// State has two parts:
//
//   - Stored: the entry of each transactional id. Only Replay changes this part, from records that
//     were just appended and from records that are read after a failover. There is no pending
//     transition: a request is decided on the entry of the last record in the log. The record
//     formats are Kafka's (docs/format/transaction-state.md).
//   - Volatile: the partitions that have not acknowledged their marker, and the requests that wait
//     for the end of a transaction. A failover loses this part: the next coordinator sends all
//     markers again, and clients retry.
//
// Outputs are records, answers, and markers. A marker is an answer with Token state.Effect: the
// runtime releases it once its record is below the high watermark.
//
// Invariants:
//   - One decision: a marker is released only after the record with the outcome (Prepare*) is below
//     the high watermark. Each later coordinator reads this record, so all markers of a transaction
//     have the same outcome.
//   - A transaction is complete only after every partition has acknowledged its marker.
//   - After an InitProducerId without a producer id was answered, no request of an earlier epoch
//     succeeds. The last epoch is then -1, so that an earlier instance of the producer does not
//     receive the epoch of the later one.
//   - Every Ongoing entry has a timer, and every Prepare* entry has partitions without an
//     acknowledgement or a timer. So no transaction stays open for ever.
//   - Each Token is answered at most once.
//
// Transaction version 2 (KIP-890): a client that ends a transaction by EndTxn 5 gets a new epoch
// with it. Prepare* stores the epoch e+1, and the markers carry it. If e+1 is the largest epoch,
// Prepare* also stores the producer id that Complete* changes to. The abort of the coordinator
// itself increases the epoch in all versions.
//
// Differences from Kafka's TransactionCoordinator: a request that meets Prepare* waits for
// Complete*, for at most ParkedMax, instead of being answered CONCURRENT_TRANSACTIONS at once.
// Below version 2, a request from an earlier connection of the producer is refused, because it may
// be a late EndTxn that would end the next transaction. A load forgets the connections. The code is
// written anew.
package transaction
