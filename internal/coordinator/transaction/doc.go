// Package transaction implements the transactional ids of one partition of __transaction_state
// (KIP-98): producer ids and epochs, the partitions of each transaction, and its outcome. It is a
// deterministic state machine without goroutines, locks, clock, I/O or randomness. The time is an
// argument, timers are requested through Timers, and new producer ids through Config.ProducerID.
// Packages coordinator and coordinator/runtime call it.
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
//     transition: a request is decided by the entry in the last record in the log. The record
//     formats are Kafka's (docs/internals/format/transaction-state.md).
//   - Volatile: the partitions that have not acknowledged their marker, and the requests that wait
//     for the end of a transaction. A failover loses this part: the next coordinator sends all
//     markers again, and clients retry.
//
// An output contains records, answers and markers. A marker is an answer with Token state.Effect:
// the runtime releases it once its record is below the high watermark.
//
// Invariants:
//   - One decision: a marker is released only after the record with the outcome (Prepare*) is below
//     the high watermark. Each later coordinator reads this record, so all markers of a transaction
//     have the same outcome.
//   - A transaction is complete only after every partition has acknowledged its marker.
//   - After an InitProducerId without a producer id was answered, no request with an earlier epoch
//     succeeds. lastEpoch is then -1, so that an earlier instance of the producer does not receive
//     the later instance's epoch.
//   - Every Ongoing entry has a timer. Every Prepare* entry has a timer, or partitions that have
//     not acknowledged their marker. So no transaction stays open for ever.
//   - Each Token is answered at most once.
//
// Transaction version 2 (KIP-890): a client that ends a transaction by EndTxn 5 gets a new epoch in
// the response. If the transaction's epoch is e, Prepare* stores the epoch e+1, and the markers
// contain it. If e+1 is the largest epoch, Prepare* also stores the producer id to which Complete*
// changes. An abort by the coordinator itself increases the epoch in all versions.
//
// Differences from Kafka's TransactionCoordinator: a request that meets Prepare* waits for
// Complete*, for at most ParkedMax, instead of being answered CONCURRENT_TRANSACTIONS at once.
// Below version 2, a request from an earlier connection of the producer is refused, because it may
// be a late EndTxn that would end the next transaction. After a load, the connections are unknown.
// The code is not copied from Kafka.
package transaction
