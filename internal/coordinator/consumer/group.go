package consumer

import (
	"errors"
	"iter"
	"regexp"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// Errors of requests. Package handler maps each of them to a Kafka error code.
var (
	ErrInvalid             = errors.New("invalid heartbeat")
	ErrUnknownMember       = errors.New("unknown member id")
	ErrFencedEpoch         = errors.New("fenced member epoch: revoke all partitions and join again")
	ErrFencedInstance      = errors.New("another member has replaced this group instance id")
	ErrUnreleasedInstance  = errors.New("another member still uses the group instance id")
	ErrUnsupportedAssignor = errors.New("unsupported assignor")
	ErrInvalidExpression   = errors.New("invalid regular expression")
	ErrFull                = errors.New("group is full")
	ErrStaleEpoch          = errors.New("stale member epoch")
	ErrTooLarge            = errors.New("subscription too large to be stored")
)

// Special member epochs (KIP-848).
const (
	EpochJoin  int32 = 0
	EpochLeave int32 = -1
	// a static member leaves, and will return with its instance id
	EpochLeaveStatic int32 = -2
)

// Config configures groups. All fields except Assignment must be set.
type Config struct {
	Session  time.Duration // session timeout
	Interval time.Duration // time between two heartbeats of a member
	// Assignment is the minimum time between two computations of targets (KIP-1263); it may be 0.
	Assignment     time.Duration
	MembersMax     int
	RecordBytesMax int // limit for each record
}

// Phase is the progress of a member towards its target. The numbers are stored in records.
type Phase int8

// The phases of a member.
const (
	Stable     Phase = iota // the member owns its whole target
	Unrevoked               // the member must still revoke partitions
	Unreleased              // other members still own partitions of the member's target
)

// Topic is a topic of the cluster.
type Topic struct {
	ID         assignor.TopicID
	Name       string
	Partitions int
}

// Topics is an immutable snapshot of the cluster's topics. A Group detects a new snapshot by
// comparing addresses.
type Topics struct {
	ByName func(name string) (Topic, bool)
	All    iter.Seq[Topic]
}

// Member is a member of a group. Profile and Current are each stored in a record.
type Member struct {
	ID string
	Profile
	Current

	deadline time.Time // end of the member's session
	revokeBy time.Time // time at which Revoking must be empty; zero: it is empty
}

// Group is the state of a group. Only Replay changes the stored fields.
type Group struct {
	ID string

	stored          bool  // a group record is stored
	epoch           int32 // number of changes of members, subscriptions and topics
	hash            int64 // hash of the subscribed topics in this epoch
	assignmentEpoch int32 // epoch for which targets were computed; at most epoch
	assignedMs      int64 // time at which targets were computed, Unix ms; 0: unknown
	members         map[string]*Member
	targets         map[string]assignor.Assignment // by member id
	resolved        map[string]Resolved            // topics matched by each expression

	// The fields below are derived from the members.
	instances map[string]string // member ids by group.instance.id
	// owner of each partition: the id of the member that lists it in Assigned or Revoking
	owners  map[assignor.TopicID]map[int32]string
	loading bool // Loaded has not been called yet, and owners is incomplete

	// The fields below are volatile.
	currentFor *Topics                   // snapshot from which epoch and targets were computed
	patterns   map[string]*regexp.Regexp // compiled expressions, by their text
}

// New returns an empty group. Parameter loading is set if records of the log will be passed to
// Replay; Loaded must then be called after them.
func New(id string, loading bool) *Group {
	return &Group{
		ID: id, members: map[string]*Member{}, targets: map[string]assignor.Assignment{},
		resolved:  map[string]Resolved{},
		instances: map[string]string{}, owners: map[assignor.TopicID]map[int32]string{},
		patterns: map[string]*regexp.Regexp{}, loading: loading,
	}
}

// Members returns the number of members.
func (g *Group) Members() int { return len(g.members) }

// Unused reports whether neither a group record nor a record of a member is stored.
func (g *Group) Unused() bool { return !g.stored && len(g.members) == 0 }

// Loaded is called after all records of the log were replayed. It starts a session for every
// member.
func (g *Group) Loaded(now time.Time, session time.Duration) {
	g.loading = false
	// Two members may have the same instance: one that has left temporarily, and its successor. The
	// successor must come last, so that it becomes the owner of their partitions.
	for _, away := range []bool{true, false} {
		for _, m := range g.members {
			if away == (m.Epoch == EpochLeaveStatic) {
				g.addOwner(m)
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

// Due returns the time at which Expire must be called for a member. The result ok is false if the
// member does not exist.
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

// MemberIDs returns the ids of all members, in no particular order.
func (g *Group) MemberIDs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for id := range g.members {
			if !yield(id) {
				return
			}
		}
	}
}

// addOwner makes a member the owner of each of its partitions.
func (g *Group) addOwner(m *Member) {
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

// removeOwner removes a member as the owner of each of its partitions.
func (g *Group) removeOwner(m *Member) {
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
