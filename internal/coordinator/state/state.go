package state

import (
	"errors"
	"time"
)

// ErrRecordTooLarge means that a record exceeds the topic's limit for the size of a batch. A retry
// fails too.
var ErrRecordTooLarge = errors.New("coordinator record too large")

// Token identifies a request that waits for an answer. Effect is not the token of any request.
type Token uint64

// Effect is the token of an answer for which no request waits. The runtime passes the answer's
// result to the coordinator (Options.Release), once every record on which the result may depend is
// below the high watermark. The results are passed in the order of the records.
const Effect Token = 0

// Answer completes the request that is waiting with the token To. Err and Result may both be set,
// because some errors are returned together with a result.
type Answer[A any] struct {
	To     Token
	Err    error
	Result A
}

// Record is a record of the coordinator's partition. If Value is nil, the record is a tombstone.
type Record struct {
	Key, Value []byte
}

// Stored is a record and its position in the log.
type Stored struct {
	Record
	Offset int64
	// ProducerID is the producer of the transaction to which the record belongs, or NoProducer if the
	// record belongs to no transaction.
	ProducerID int64
}

// NoProducer is the producer id of a record without a transaction.
const NoProducer int64 = -1

// Marker ends a producer's transaction.
type Marker struct {
	ProducerID int64
	Commit     bool
}

// Output is the result of one call of a state machine. The runtime first appends the records, and
// then passes them to Replay, in order. It sends the answers once the records are below the high
// watermark.
type Output[A any] struct {
	Records []Record
	Answers []Answer[A]
	// VolatileChanged means that the state machine has already changed its volatile state on the
	// assumption that Records will be stored. If storing them fails, the state is inconsistent and
	// must be loaded again.
	VolatileChanged bool
}

// Timers schedules calls of a state machine's method Fire. Fire may be called too early, and even
// after Clear, so it must compare the time with its own deadline.
type Timers[K comparable] interface {
	// Set schedules a call of Fire with the given key after the duration d. It replaces an earlier Set
	// for the key.
	Set(key K, d time.Duration)
	// Clear cancels the timer with the given key.
	Clear(key K)
}
