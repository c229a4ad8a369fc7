package state

import (
	"errors"
	"time"
)

// ErrRecordTooLarge is the error for a record that exceeds the topic's limit on the size of a
// batch. A retry fails too.
var ErrRecordTooLarge = errors.New("coordinator record too large")

// Token identifies a request that waits for an answer. No request has token Effect.
type Token uint64

// Effect is the token of an answer that no request waits for. The runtime passes its result to the
// coordinator once every record that it may depend on is below the high watermark
// (Options.Release), in the order of the records.
const Effect Token = 0

// Answer completes the request that waits under the token To. Err and Result may both be set: some
// errors carry a result.
type Answer[A any] struct {
	To     Token
	Err    error
	Result A
}

// Record is a record of the coordinator's partition. A nil Value makes it a tombstone.
type Record struct {
	Key, Value []byte
}

// Stored is a record at its place in the log.
type Stored struct {
	Record
	Offset int64
	// ProducerID is the producer of the transaction to which the record belongs; NoProducer if it
	// belongs to none.
	ProducerID int64
}

// NoProducer is the producer id of a record without a transaction.
const NoProducer int64 = -1

// Marker ends the transaction of a producer.
type Marker struct {
	ProducerID int64
	Commit     bool
}

// Output is what one call of a state machine returns. The runtime first appends the records and
// passes them to Replay, in the order of Records. It sends the answers once the records are below
// the high watermark.
type Output[A any] struct {
	Records []Record
	Answers []Answer[A]
	// VolatileChanged reports that the state machine has already changed its volatile state on the
	// assumption that Records will be stored. If storing fails, the state is inconsistent and must
	// be loaded again.
	VolatileChanged bool
}

// Timers schedules calls of a state machine's method Fire. Fire may be called too early, and even
// after Clear, so it compares the time with its own deadline.
type Timers[K comparable] interface {
	// Set schedules a call of Fire with the key after the duration d. It replaces an earlier Set of
	// the key.
	Set(key K, d time.Duration)
	// Clear cancels the timer of a key.
	Clear(key K)
}
