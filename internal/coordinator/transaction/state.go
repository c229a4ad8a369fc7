package transaction

import (
	"errors"
	"maps"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
)

// These are errors of requests. Package handler converts each of them to a Kafka error code.
var (
	ErrInvalidTimeout = errors.New("transaction timeout out of range")
	ErrInvalidMapping = errors.New("transactional id has another producer id")
	ErrFenced         = errors.New("producer fenced by a later epoch")
	ErrConcurrent     = errors.New("the previous transaction is not complete yet")
	ErrInvalidState   = errors.New("invalid transaction state")
	ErrNotFound       = errors.New("transactional id not found")
	ErrRecordTooLarge = state.ErrRecordTooLarge
)

const (
	// ParkedMax is the maximum time for which a request waits for the end of a transaction. After this
	// time, it is answered with ErrConcurrent.
	ParkedMax = time.Second
	// LoadGrace is how long after a load no transaction times out. The client of a transaction may
	// have been waiting for this coordinator, and this broker's clock may be ahead of the previous
	// coordinator's clock.
	LoadGrace = 10 * time.Second
	// retryInterval is the time between two attempts to store the same record.
	retryInterval = time.Second
)

// Config configures transactions. A zero duration selects the default.
type Config struct {
	// TimeoutMax is the longest timeout that a client may request; default 15 min (Kafka's
	// transaction.max.timeout.ms).
	TimeoutMax time.Duration
	// Expiration is the time after which an unused transactional id is deleted; default 7 days
	// (Kafka's transactional.id.expiration.ms).
	Expiration time.Duration
	// ProducerID returns a producer id that is unused in the cluster. It must be set.
	ProducerID func() (int64, error)
}

// WithDefaults returns the configuration with defaults in place of zero durations.
func (c Config) WithDefaults() Config {
	if c.TimeoutMax == 0 {
		c.TimeoutMax = 15 * time.Minute
	}
	if c.Expiration == 0 {
		c.Expiration = 7 * 24 * time.Hour
	}
	return c
}

type ( // types that are exchanged with the runtime (package state)
	// Token identifies a request that waits for its answer.
	Token = state.Token
	// Record is a record of __transaction_state.
	Record = state.Record
	// Answer completes a waiting request, or releases a marker.
	Answer = state.Answer[Result]
	// Output contains the records to store and the answers to send.
	Output = state.Output[Result]
	// Timers schedules calls of State.Fire.
	Timers = state.Timers[TimerKey]
)

// Result is the content of an answer.
type Result struct {
	Producer Producer // producer in the answer to an Init or an End
	// Absent contains the partitions that the transaction does not include, in the answer to a
	// verifying Add.
	Absent []Partition
	Marker *Marker // marker in an answer with Token state.Effect; nil in all others
}

// Marker ends a transaction. It is written to the transaction's partitions.
type Marker struct {
	ID         string // transactional id
	Serial     uint64 // number that identifies the marker in acknowledgements to this State
	Producer   Producer
	Commit     bool
	Version    int16 // transaction version
	Partitions []Partition
}

// TimerKey identifies a timer of a transactional id.
type TimerKey struct {
	ID   string
	Kind TimerKind
}

// TimerKind is the purpose of a timer.
type TimerKind int8

const (
	abortTimer    TimerKind = iota // the timer aborts an Ongoing transaction
	parkedTimer                    // the timer answers requests that have waited for too long
	completeTimer                  // the timer triggers another attempt to store Complete*
)

// transaction consists of a transactional id's entry and its volatile state.
type transaction struct {
	entry
	id string
	// unmarked contains the partitions that have not acknowledged the marker. It is used only in
	// Prepare*.
	unmarked map[Partition]struct{}
	serial   uint64 // serial number of the marker, only in Prepare*
	parked   []parked
	// connection is the number of the newest connection that has sent a request with the current
	// producer id and epoch; 0: unknown.
	connection uint64
	// ownAbort is the reason for the coordinator's own abort while the record of this abort is being
	// stored.
	ownAbort abortReason
}

// abortReason is the reason for the end of a transaction.
type abortReason int8

const (
	byClient abortReason = iota
	timedOut
	fenced
)

// parked is a request that waits until the transaction is complete.
type parked struct {
	request
	deadline time.Time
}

// Ended contains the number of transactions that have ended, by reason.
type Ended struct {
	Committed, Aborted uint64 // numbers of transactions that clients have ended
	// TimedOut and Fenced are the numbers of transactions that the coordinator has aborted. Fenced
	// counts aborts caused by InitProducerId or by an administrator.
	TimedOut, Fenced uint64
}

// State contains the transactional ids of one partition.
type State struct {
	config  Config
	timers  Timers
	byID    map[string]*transaction
	topics  map[string]string // shared copies of topic names
	loading bool
	grace   time.Time // time before which no transaction times out
	serial  uint64    // serial number of the newest marker
	ended   Ended
}

// New returns the empty state of a partition. It is loading until Loaded is called.
func New(config Config, timers Timers) *State {
	return &State{config: config.WithDefaults(), timers: timers, loading: true,
		byID: map[string]*transaction{}, topics: map[string]string{}}
}

// Configure changes the configuration.
func (s *State) Configure(config Config) { s.config = config.WithDefaults() }

// Loaded must be called after all records have been replayed. It returns the markers of all decided
// transactions, because markers sent by the previous coordinator may be lost.
func (s *State) Loaded(now time.Time) (out Output) {
	s.loading = false
	s.grace = now.Add(LoadGrace)
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		t := s.byID[id]
		switch {
		case t.phase == Ongoing:
			s.setAbortTimer(now, t)
		case t.phase.prepared() && len(t.partitions) == 0:
			out.Records = append(out.Records, encode(id, t.completed(now)))
			s.timers.Set(TimerKey{id, completeTimer}, retryInterval)
		case t.phase.prepared():
			out.Answers = append(out.Answers, s.mark(t))
		}
	}
	return out
}

// mark starts to wait for the acknowledgements of a decided transaction, and returns the
// transaction's marker.
func (s *State) mark(t *transaction) Answer {
	s.serial++
	t.serial, t.unmarked = s.serial, make(map[Partition]struct{}, len(t.partitions))
	for _, p := range t.partitions {
		t.unmarked[p] = struct{}{}
	}
	return Answer{To: state.Effect, Result: Result{Marker: &Marker{
		ID: t.id, Serial: t.serial, Producer: t.producer, Commit: t.phase.commits(),
		Version: t.version, Partitions: t.partitions,
	}}}
}

// setAbortTimer sets the timer of an Ongoing transaction to the transaction's deadline, but not
// before the end of the grace period after a load. The remaining time never exceeds the timeout; a
// later deadline results from a clock that was ahead.
func (s *State) setAbortTimer(now time.Time, t *transaction) {
	left := max(min(t.deadline().Sub(now), t.timeout), s.grace.Sub(now), 0)
	s.timers.Set(TimerKey{t.id, abortTimer}, left)
}

// Len returns the number of transactional ids.
func (s *State) Len() int { return len(s.byID) }

// Ended returns the numbers of transactions that have ended since the load.
func (s *State) Ended() Ended { return s.ended }

// CountPhases adds the number of transactional ids in each phase to counts.
func (s *State) CountPhases(counts map[string]int) {
	for _, t := range s.byID {
		counts[t.phase.String()]++
	}
}

// Expire returns at most limit tombstones of transactional ids that have been unused for
// Config.Expiration. more reports whether further ones may have expired.
func (s *State) Expire(now time.Time, limit int) (out Output, more bool) {
	for id, t := range s.byID {
		if t.phase == Ongoing || t.phase.prepared() ||
			now.Sub(t.changed) < s.config.Expiration {
			continue
		}
		if len(out.Records) == limit {
			return out, true
		}
		out.Records = append(out.Records, tombstone(id))
	}
	slices.SortFunc(out.Records, compareRecords)
	return out, false
}
