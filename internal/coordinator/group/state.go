package group

import (
	"errors"
	"math"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/state"
)

// What a request can get wrong. internal/handler maps each to a Kafka error code.
var (
	ErrUnknownMember        = consumer.ErrUnknownMember // of either protocol, as two more
	ErrIllegalGeneration    = errors.New("illegal generation")
	ErrInconsistentProtocol = errors.New("inconsistent group protocol")
	ErrMemberIDRequired     = errors.New("join again with the member id")
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
		"members of the consumer protocol commit with member epochs",
	)
)

// Config bounds groups. The zero value of a field is its default, which is Kafka's where Kafka has
// one.
type Config struct {
	SessionMin, SessionMax time.Duration // default 6 s and 30 min
	// how long an empty group waits for more members; default 3 s, negative: not at all
	InitialDelay     time.Duration
	MembersMax       int           // default: no limit but RecordBytesMax
	MetadataBytesMax int           // of one offset; default 4096, negative: none
	RecordBytesMax   int           // of a group as it is stored; default 1,000,000
	Retention        time.Duration // of offsets of a group without members; default 7 days
	// of members of the consumer protocol (KIP-848); default 45 s
	ConsumerSession  time.Duration
	ConsumerInterval time.Duration // between their heartbeats; default 5 s
}

// newMemberJoin is how long one waits to join that has no id to send heartbeats with yet (Kafka's).
const newMemberJoin = 5 * time.Minute

// idBytesMax bounds the ids that clients choose. Kafka's record formats have room for 32,767 bytes,
// which nobody needs.
const idBytesMax = 1024

// WithDefaults returns the bounds with Kafka's where none is given.
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
	return c
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// The types that a State exchanges with its runtime.
type (
	Token  = state.Token
	Record = state.Record
	Answer = state.Answer[Result]
	Output = state.Output[Result]
	Timers = state.Timers[TimerKey]
)

// Result is what an answer to a Join or to a Sync holds. With an error of a Join, Joined.Member is
// set as well.
type Result struct {
	Joined Joined
	Synced Synced
}

// TimerKey identifies a timer: of a member's session, or, without a member, of a group's phase.
type TimerKey struct {
	Group, Member string
}

// State is all groups of one partition.
type State struct {
	config  Config
	timers  Timers
	groups  map[string]*group
	topics  map[string]string // names, once each
	loading bool
	out     Output
	offsets int

	// offsets whose tombstones were asked for because they were too old, or their topic was gone
	expiredCount uint64
}

// New returns the state of an empty partition, to be filled by Replay; Loaded makes it ready for
// requests.
func New(config Config, timers Timers) *State {
	return &State{config: config.WithDefaults(), timers: timers, groups: map[string]*group{},
		topics: map[string]string{}, loading: true}
}

// Configure bounds groups anew from now on; sessions that run keep their time.
func (s *State) Configure(config Config) {
	s.config = config.WithDefaults()
}

// Loaded ends the replay of what is on the disk: the members of all groups have a session's time to
// be heard of.
func (s *State) Loaded(now time.Time) {
	s.loading = false
	for _, g := range s.groups {
		if g.consumer != nil {
			s.loadedConsumer(now, g)
		}
		for _, m := range g.members {
			s.beginSession(now, g, m, m.session)
		}
		s.dropIfVoid(g)
	}
}

// Groups is how many there are.
func (s *State) Groups() int { return len(s.groups) }

// Offsets is how many are committed, of all groups.
func (s *State) Offsets() int { return s.offsets }

// KnowsTopic tells whether an offset of a topic was ever committed, as far as this State has seen.
func (s *State) KnowsTopic(topic string) bool {
	_, known := s.topics[topic]
	return known
}

// Expired is how many offsets the State has forgotten by itself, since New.
func (s *State) Expired() uint64 { return s.expiredCount }

// CountPhases adds the number of groups in each phase, by the name that Kafka's tools have for it.
func (s *State) CountPhases(counts map[string]int) {
	for _, g := range s.groups {
		counts[g.shownPhase()]++
	}
}

// take hands out what came together since the last call.
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

// CheckID refuses ids of groups and instances that cannot be stored.
func CheckID(id string) error {
	if len(id) > idBytesMax {
		return ErrInvalidGroup
	}
	return nil
}

// Fire is called when a timer is due.
func (s *State) Fire(now time.Time, key TimerKey) Output {
	g := s.groups[key.Group]
	switch {
	case g == nil:
	case g.consumer != nil && !g.awaits(key.Member):
		s.consumerDue(now, g, key.Member)
	case key.Member != "":
		s.sessionOver(now, g, key.Member)
	default:
		s.phaseOver(now, g)
	}
	return s.take()
}
