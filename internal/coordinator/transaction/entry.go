package transaction

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
)

// Phase is the state of a transactional id. The numbers are the same as in Kafka's records.
type Phase int8

// These are the phases of a transactional id.
const (
	Empty          Phase = 0 // no transaction since InitProducerId
	Ongoing        Phase = 1
	PrepareCommit  Phase = 2 // the outcome is decided; markers are being written
	PrepareAbort   Phase = 3
	CompleteCommit Phase = 4 // all markers are written
	CompleteAbort  Phase = 5
)

var phaseNames = [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort",
	"CompleteCommit", "CompleteAbort"}

// String returns the phase's name in Kafka's APIs.
func (p Phase) String() string {
	if p.valid() {
		return phaseNames[p]
	}
	return strconv.Itoa(int(p))
}

// Phases returns the names of all phases.
func Phases() []string { return phaseNames[:] }

// Open reports whether the transaction has not yet ended in all its partitions.
func (p Phase) Open() bool { return p == Ongoing || p.prepared() }

func (p Phase) valid() bool    { return p >= Empty && int(p) < len(phaseNames) }
func (p Phase) prepared() bool { return p == PrepareCommit || p == PrepareAbort }
func (p Phase) commits() bool  { return p == PrepareCommit || p == CompleteCommit }

// complete returns the phase that follows a prepared phase.
func (p Phase) complete() Phase {
	if p == PrepareCommit {
		return CompleteCommit
	}
	return CompleteAbort
}

// Producer is a producer id and an epoch.
type Producer struct {
	ID    int64
	Epoch int16
}

const (
	// NoProducerID is the producer id in requests and records that contain none.
	NoProducerID = -1
	noEpoch      = -1
	// lastUsableEpoch is the largest epoch that a producer can receive. The next epoch is reserved for
	// the marker that ends its transaction.
	lastUsableEpoch = math.MaxInt16 - 1
	// EpochBumpVersion is the first transaction version in which the end of a transaction bumps the
	// producer's epoch (KIP-890).
	EpochBumpVersion = 2
)

// Partition identifies a partition by topic and index.
type Partition struct {
	Topic string
	Index int32
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

// entry is the stored state of a transactional id. It is a value: a transition returns a changed
// copy, and does not modify the partitions of the original.
type entry struct {
	producer   Producer
	previousID int64 // producer id before the last change of the id, or NoProducerID
	nextID     int64 // in Prepare*: the producer id once the transaction is complete, or NoProducerID
	nextEpoch  int16 // value of Kafka's field for two-phase commit (KIP-939); stored unchanged
	// lastEpoch is the epoch in the request through which the producer got its current epoch, or
	// noEpoch. A request with this epoch is a retry.
	lastEpoch  int16
	timeout    time.Duration
	phase      Phase
	partitions []Partition // sorted partitions without duplicates; only in Ongoing and Prepare*
	changed    time.Time
	// started is the start time of the last transaction; zero if there was none since InitProducerId.
	started time.Time
	version int16 // transaction version of the last transaction
}

// newEntry returns the entry of a transactional id with its first producer id.
func newEntry(now time.Time, producerID int64, timeout time.Duration) entry {
	return entry{producer: Producer{producerID, 0}, previousID: NoProducerID,
		nextID: NoProducerID, nextEpoch: noEpoch, lastEpoch: noEpoch, timeout: timeout,
		changed: now}
}

// deadline returns the time at which the coordinator aborts the Ongoing transaction.
func (e *entry) deadline() time.Time { return e.started.Add(e.timeout) }

// includes reports whether the transaction includes a partition.
func (e *entry) includes(p Partition) bool {
	_, found := slices.BinarySearchFunc(e.partitions, p, comparePartitions)
	return found
}

// exhausted reports whether the producer id has no further epoch that a producer can receive.
func (e *entry) exhausted() bool { return e.producer.Epoch >= lastUsableEpoch }

// initialized returns the entry after an InitProducerId request: without a transaction, and with a
// new epoch.
func (e entry) initialized(now time.Time, producer Producer, lastEpoch int16,
	timeout time.Duration) entry {
	if producer.ID != e.producer.ID {
		e.previousID = e.producer.ID
	}
	e.producer, e.lastEpoch, e.timeout = producer, lastEpoch, timeout
	e.phase, e.partitions, e.changed, e.started = Empty, nil, now, time.Time{}
	return e
}

// extended returns the entry with further partitions in its transaction. It begins a transaction if
// none is ongoing.
func (e entry) extended(now time.Time, added []Partition, version int16) entry {
	if e.phase != Ongoing {
		e.phase, e.started, e.partitions = Ongoing, now, nil
	}
	all := slices.Concat(e.partitions, added)
	slices.SortFunc(all, comparePartitions)
	e.partitions, e.changed, e.version = slices.Compact(all), now, version
	return e
}

// prepared returns the entry with the transaction's outcome. If bump is set, the markers contain
// the next epoch. The producer must then use this epoch or, if it is the largest epoch, the
// producer id nextID.
func (e entry) prepared(now time.Time, phase Phase, bump bool) entry {
	if e.phase != Ongoing { // the aborted transaction has no partitions
		e.started = now
	}
	e.phase, e.changed = phase, now
	if bump {
		e.lastEpoch = e.producer.Epoch
		e.producer.Epoch++
	}
	return e
}

// needsNextID reports whether Prepare* must contain the next producer id in addition to a new
// epoch, because a producer cannot use the new epoch.
func (e *entry) needsNextID(version int16) bool {
	return version >= EpochBumpVersion && e.producer.Epoch >= lastUsableEpoch
}

// completed returns the entry after all markers of its prepared transaction have been written.
func (e entry) completed(now time.Time) entry {
	e.phase, e.partitions, e.changed = e.phase.complete(), nil, now
	if e.nextID != NoProducerID {
		e.previousID = e.producer.ID
		e.producer, e.nextID = Producer{e.nextID, 0}, NoProducerID
	}
	return e
}

// answered returns the producer in the answer to an EndTxn request in a prepared or complete phase.
func (e *entry) answered() Producer {
	if e.nextID != NoProducerID {
		return Producer{e.nextID, 0}
	}
	return e.producer
}
