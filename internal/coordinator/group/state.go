package group

import (
	"errors"
	"math"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/state"
)

// These are errors of requests. Package handler converts each of them to a Kafka error code.
var (
	// Both protocols use these errors of package consumer.
	ErrUnknownMember        = consumer.ErrUnknownMember
	ErrIllegalGeneration    = errors.New("illegal generation")
	ErrInconsistentProtocol = errors.New("inconsistent group protocol")
	ErrMemberIDRequired     = errors.New("member id required: join again with the given member id")
	ErrFencedInstance       = consumer.ErrFencedInstance
	ErrRebalanceInProgress  = errors.New("rebalance in progress")
	ErrGroupFull            = consumer.ErrFull
	ErrInvalidSession       = errors.New("session timeout out of range")
	ErrInvalidGroup         = errors.New("invalid group id")
	ErrNotEmpty             = errors.New("group has members")
	ErrNotFound             = errors.New("group not found")
	ErrSubscribed           = errors.New("group is subscribed to the topic")
	ErrMetadataTooLarge     = errors.New("offset metadata too large")
	ErrRecordTooLarge       = state.ErrRecordTooLarge
	ErrOldProtocol          = errors.New(
		"members of the consumer protocol must commit with a member epoch")
)

// Config contains the configuration of groups. A zero field selects the default, which is Kafka's
// default if Kafka has such a setting.
type Config struct {
	SessionMin, SessionMax time.Duration // minimum and maximum session timeout; default 6 s and 30 min
	// InitialDelay is how long the first rebalance of an empty group waits for more members. The
	// default is 3 s; a negative value means no delay.
	InitialDelay time.Duration
	// MembersMax is the maximum number of members in a group; by default, only RecordBytesMax limits
	// it.
	MembersMax       int
	MetadataBytesMax int // maximum size of an offset's metadata; default 4096; negative: 0
	RecordBytesMax   int // maximum size of a group's record; default 1,000,000
	// Retention is how long a group's offsets are kept after the group has become empty; default 7
	// days.
	Retention time.Duration
	// ConsumerSession and ConsumerInterval are the session timeout and the heartbeat interval in the
	// consumer protocol (KIP-848).
	ConsumerSession  time.Duration // default 45 s
	ConsumerInterval time.Duration // default 5 s
	// ConsumerAssignment is the minimum time between two computations of a consumer-protocol group's
	// targets (KIP-1263). The default is 1 s; a negative value means 0.
	ConsumerAssignment time.Duration
	// Overrides contains settings for single groups, by group id. State does not modify the map.
	Overrides map[string]Override
}

// Override contains the settings for one group. If a field is zero, the setting in Config applies.
type Override struct {
	ConsumerSession    time.Duration
	ConsumerInterval   time.Duration
	ConsumerAssignment time.Duration
}

// newMemberJoin is a new member's session timeout until its first join has been answered. Until
// then the client does not know its member id and cannot send heartbeats. Kafka uses the same
// value.
const newMemberJoin = 5 * time.Minute

// idBytesMax limits the length of the ids that clients choose. Kafka's record formats allow 32,767
// bytes.
const idBytesMax = 1024

// WithDefaults returns the configuration with defaults in place of zero fields.
func (c Config) WithDefaults() Config {
	orDefault(&c.SessionMin, 6*time.Second)
	orDefault(&c.SessionMax, 30*time.Minute)
	orDefault(&c.InitialDelay, 3*time.Second)
	orDefault(&c.MembersMax, math.MaxInt32)
	orDefault(&c.MetadataBytesMax, 4096)
	orDefault(&c.RecordBytesMax, 1_000_000)
	orDefault(&c.Retention, 7*24*time.Hour)
	orDefault(&c.ConsumerSession, 45*time.Second)
	orDefault(&c.ConsumerInterval, 5*time.Second)
	orDefault(&c.ConsumerAssignment, time.Second)
	return c
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

type ( // types that are exchanged with the runtime (package state)
	// Token identifies a request that waits for its answer.
	Token = state.Token
	// Record is a record of __consumer_offsets.
	Record = state.Record
	// Answer completes a waiting request, a Join or a Sync.
	Answer = state.Answer[Result]
	// Output contains the records to store and the answers to send.
	Output = state.Output[Result]
	// Timers schedules calls of State.Fire.
	Timers = state.Timers[TimerKey]
)

// Result is the content of an answer to a Join or a Sync. The answer to a failed Join contains both
// the error and Joined.Member.
type Result struct {
	Joined Joined
	Synced Synced
}

// TimerKey identifies a timer: a member's session timer or, if Member is empty, the timer of the
// group's phase.
type TimerKey struct {
	Group, Member string
}

// State contains the state of all groups of one partition.
type State struct {
	config  Config
	timers  Timers
	groups  map[string]*group
	topics  map[string]string // a single copy of each topic name, shared by all offsets
	loading bool              // true until Loaded is called
	out     Output            // output of the current call
	offsets int               // number of committed offsets
	// producers contains, for each producer with an open transaction, the ids of all groups in which
	// it has pending offsets.
	producers map[int64]map[string]bool

	expiredCount uint64 // number of offsets that Expire and DeleteStaleOffsets have deleted
}

// New returns the state of an empty partition. The caller passes the log's records to Replay and
// then calls Loaded. After that, the State is ready for requests.
func New(config Config, timers Timers) *State {
	return &State{config: config.WithDefaults(), timers: timers, groups: map[string]*group{},
		topics: map[string]string{}, producers: map[int64]map[string]bool{}, loading: true}
}

// Configure replaces the configuration. Running sessions keep their timeouts.
func (s *State) Configure(config Config) {
	s.config = config.WithDefaults()
}

// Loaded must be called after all records of the log have been replayed. It starts a session for
// every member.
func (s *State) Loaded(now time.Time) {
	s.loading = false
	for _, g := range s.groups {
		if g.consumer != nil {
			s.loadedConsumer(now, g)
		}
		for _, m := range g.members {
			s.beginSession(now, g, m, m.session)
		}
		s.deleteIfUnused(g)
	}
}

// Groups returns the number of groups.
func (s *State) Groups() int { return len(s.groups) }

// Offsets returns the number of committed offsets of all groups.
func (s *State) Offsets() int { return s.offsets }

// WithOffsets returns the ids of all groups that have committed offsets, in any order.
func (s *State) WithOffsets() []string {
	ids := make([]string, 0, len(s.groups))
	for id, g := range s.groups {
		if len(g.offsets) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// KnowsTopic reports whether this State has ever replayed an offset of the topic.
func (s *State) KnowsTopic(topic string) bool {
	_, known := s.topics[topic]
	return known
}

// Expired returns the number of offsets that Expire and DeleteStaleOffsets have deleted since New.
func (s *State) Expired() uint64 { return s.expiredCount }

// CountPhases adds the number of groups in each phase to counts. The keys are the names that
// Kafka's tools show for the phases.
func (s *State) CountPhases(counts map[string]int) {
	for _, g := range s.groups {
		counts[g.phaseName()]++
	}
}

// take returns the accumulated output and resets it.
func (s *State) take() Output {
	out := s.out
	s.out = Output{}
	return out
}

func (s *State) store(r Record) { s.out.Records = append(s.out.Records, r) }

func (s *State) answer(a Answer) {
	if a.To != 0 {
		s.out.Answers = append(s.out.Answers, a)
	}
}

// CheckID returns an error if a group id or an instance id is too long to be stored.
func CheckID(id string) error {
	if len(id) > idBytesMax {
		return ErrInvalidGroup
	}
	return nil
}

// Fire handles an expired timer.
func (s *State) Fire(now time.Time, key TimerKey) Output {
	g := s.groups[key.Group]
	switch {
	case g == nil:
	case g.consumer != nil && !g.isPending(key.Member):
		s.consumerExpired(now, g, key.Member)
	case key.Member != "":
		s.sessionExpired(now, g, key.Member)
	default:
		s.phaseExpired(now, g)
	}
	return s.take()
}
