package consumer

import (
	"errors"
	"iter"
	"regexp"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// What a request can get wrong. internal/handler maps each to a Kafka error code.
var (
	ErrInvalid             = errors.New("invalid heartbeat")
	ErrUnknownMember       = errors.New("unknown member id")
	ErrFencedEpoch         = errors.New("the member must give up all its partitions and join again")
	ErrFencedInstance      = errors.New("another member has taken the group instance id")
	ErrUnreleasedInstance  = errors.New("another member has the group instance id and has not left")
	ErrUnsupportedAssignor = errors.New("unsupported assignor")
	ErrInvalidExpression   = errors.New("invalid regular expression")
	ErrFull                = errors.New("group is full")
	ErrStaleEpoch          = errors.New("stale member epoch")
	ErrTooLarge            = errors.New("what the member says is too large to be stored")
)

// Epochs that are none (KIP-848).
const (
	EpochJoin        int32 = 0
	EpochLeave       int32 = -1
	EpochLeaveStatic int32 = -2 // a static member is away, and comes back under its instance id
)

// Config bounds groups; all fields must be set.
type Config struct {
	Session        time.Duration // a member that is not heard of for so long is out
	Interval       time.Duration // between heartbeats, as clients are told
	MembersMax     int
	RecordBytesMax int // of what is stored of a member, or an expression
}

// Phase is how far a member is on its way to its target; the numbers are stored.
type Phase int8

// The phases of a member.
const (
	Stable     Phase = iota // it has what it was assigned in its epoch
	Unrevoked               // it has to give up partitions first
	Unreleased              // others have not given up yet what is to be its
)

// Topic is a topic of the cluster.
type Topic struct {
	ID         assignor.TopicID
	Name       string
	Partitions int
}

// Topics is the cluster's topics at one moment. One is told from another by its address.
type Topics struct {
	ByName func(name string) (Topic, bool)
	All    iter.Seq[Topic]
}

// Member is one of a group. Profile and Current are stored, and are replaced as a whole.
type Member struct {
	ID string
	Profile
	Current

	deadline time.Time // of its session
	revokeBy time.Time // of what it is to give up; zero: nothing
}

// Group is a group's state. It changes by Replay only, but for what is not stored.
type Group struct {
	ID string

	kept            bool  // there is a record of the group itself
	epoch           int32 // grows with each change of members, subscriptions and topics
	hash            int64 // of the topics as of the epoch
	assignmentEpoch int32 // of the targets; assignmentEpoch <= epoch
	members         map[string]*Member
	targets         map[string]assignor.Assignment // by member
	resolved        map[string]Resolved            // by expression

	// Follows from the members.
	instances map[string]string // group.instance.id: member id
	// of partitions that are Assigned or Revoking: member id
	owners  map[assignor.TopicID]map[int32]string
	loading bool // owners are not known yet

	// Not stored.
	seen     *Topics                   // for which the group is up to date
	patterns map[string]*regexp.Regexp // compiled expressions
}

// New returns a group of which nothing is known; loading tells that Loaded follows once all is
// replayed.
func New(id string, loading bool) *Group {
	return &Group{
		ID: id, members: map[string]*Member{}, targets: map[string]assignor.Assignment{},
		resolved:  map[string]Resolved{},
		instances: map[string]string{}, owners: map[assignor.TopicID]map[int32]string{},
		patterns: map[string]*regexp.Regexp{}, loading: loading,
	}
}

// Members is how many there are.
func (g *Group) Members() int { return len(g.members) }

// Unused tells whether nothing is stored of the group.
func (g *Group) Unused() bool { return !g.kept && len(g.members) == 0 }

// Loaded ends the replay of what is on the disk: all members have a session's time to be heard of.
func (g *Group) Loaded(now time.Time, session time.Duration) {
	g.loading = false
	for _, away := range []bool{true, false} { // who is away gives way to who has come in its place
		for _, m := range g.members {
			if away == (m.Epoch == EpochLeaveStatic) {
				g.own(m)
				if m.Instance != "" {
					g.instances[m.Instance] = m.ID
				}
			}
			m.deadline = now.Add(session)
			m.startRevoking(now)
		}
	}
}

func (m *Member) startRevoking(now time.Time) {
	m.revokeBy = time.Time{}
	if m.Phase == Unrevoked {
		m.revokeBy = now.Add(m.Rebalance)
	}
}

// Due is when Expire is to be called for a member; ok is false if there is no such member.
func (g *Group) Due(memberID string) (due time.Time, ok bool) {
	m := g.members[memberID]
	if m == nil {
		return time.Time{}, false
	}
	if !m.revokeBy.IsZero() && m.revokeBy.Before(m.deadline) {
		return m.revokeBy, true
	}
	return m.deadline, true
}

// MemberIDs lists all members, in no order.
func (g *Group) MemberIDs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for id := range g.members {
			if !yield(id) {
				return
			}
		}
	}
}

// own makes a member the owner of its partitions.
func (g *Group) own(m *Member) {
	for _, owned := range []Owned{m.Assigned, m.Revoking} {
		for topic, partitions := range owned {
			if g.owners[topic] == nil {
				g.owners[topic] = map[int32]string{}
			}
			for partition := range partitions {
				g.owners[topic][partition] = m.ID
			}
		}
	}
}

// disown takes back what own did.
func (g *Group) disown(m *Member) {
	for _, owned := range []Owned{m.Assigned, m.Revoking} {
		for topic, partitions := range owned {
			for partition := range partitions {
				if g.owners[topic][partition] == m.ID {
					delete(g.owners[topic], partition)
				}
			}
			if len(g.owners[topic]) == 0 {
				delete(g.owners, topic)
			}
		}
	}
}
