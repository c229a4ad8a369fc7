package state

import (
	"errors"
	"time"
)

// ErrRecordTooLarge is returned for a record that is larger than the partition accepts. Retrying
// does not help.
var ErrRecordTooLarge = errors.New("coordinator record too large")

// Token identifies a request that waits for an answer; 0 identifies none.
type Token uint64

// Answer completes the request that waits under the token To. Of the fields Err and Result, a
// request may use both: some errors carry a result.
type Answer[A any] struct {
	To     Token
	Err    error
	Result A
}

// Record is one record of the coordinator's partition. A nil Value is a tombstone.
type Record struct {
	Key, Value []byte
}

// Output is the outcome of one call of a state machine: records to append and then to replay, in
// this order, and answers to send once those records are below the high watermark.
type Output[A any] struct {
	Records []Record
	Answers []Answer[A]
	// VolatileChanged reports that the state machine has already changed its volatile state on the
	// assumption that Records will be stored. If they cannot be, the state is inconsistent and must
	// be loaded again.
	VolatileChanged bool
}

// Timers schedules calls of a state machine's Fire. A call may come early or after Clear, so the
// state machine checks the time itself.
type Timers[K comparable] interface {
	// Set schedules Fire with the key after d, and replaces an earlier Set of the same key.
	Set(key K, d time.Duration)
	// Clear cancels the timer of a key.
	Clear(key K)
}
