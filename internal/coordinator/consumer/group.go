package consumer

import (
	"errors"
	"iter"
	"regexp"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// These are errors of requests. Package handler converts each of them to a Kafka error code.
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

// These are special member epochs (KIP-848).
const (
	EpochJoin  int32 = 0
	EpochLeave int32 = -1
	// EpochLeaveStatic means that a static member leaves temporarily, and will return with its
	// instance id.
	EpochLeaveStatic int32 = -2
)

// Config contains the configuration of groups. All fields except Assignment must be set.
type Config struct {
	Session  time.Duration // session timeout
	Interval time.Duration // time between two heartbeats of a member
	// Assignment is the minimum time between two computations of targets (KIP-1263); it may be 0.
	Assignment     time.Duration
	MembersMax     int
	RecordBytesMax int // maximum size of each record
}

// Phase is a member's progress towards its target. Its numbers are stored in records.
type Phase int8

// These are the phases of a member.
const (
	Stable     Phase = iota // the member owns its whole target
	Unrevoked               // the member must still revoke partitions
	Unreleased              // other members still own partitions that belong to the member's target
)

// Topic is a topic of the cluster.
type Topic struct {
	ID         assignor.TopicID
	Name       string
	Partitions int
}

// Topics is an immutable snapshot of the cluster's topics. A Group compares the addresses of Topics
// to detect a new snapshot.
type Topics struct {
	ByName func(name string) (Topic, bool)
	All    iter.Seq[Topic]
}

// Member is a member of a group. Profile and Current are each stored in one record.
type Member struct {
	ID string
	Profile
	Current

	deadline time.Time // end of the member's session
	revokeBy time.Time // time at which Revoking must be empty; zero if it is already empty
}

// Group is the state of a group. Only Replay changes the fields that are stored.
type Group struct {
	ID string

	stored          bool  // true if a group record is stored
	epoch           int32 // group epoch: the number of changes of members, subscriptions and topics
	hash            int64 // hash of the subscribed topics in this epoch
	assignmentEpoch int32 // epoch for which the targets were computed; at most epoch
	assignedMs      int64 // time at which the targets were computed, in Unix ms; 0: unknown
	members         map[string]*Member
	targets         map[string]assignor.Assignment // targets by member id
	resolved        map[string]Resolved            // topics that each expression matches

	// The fields below are derived from the members.
	instances map[string]string // member ids by group.instance.id
	// owners contains the owner of each partition: the id of the member that lists the partition in
	// Assigned or Revoking.
	owners  map[assignor.TopicID]map[int32]string
	loading bool // true until Loaded is called; owners is then incomplete

	// The fields below are not stored.
	currentFor *Topics                   // snapshot from which the epoch and the targets were computed
	patterns   map[string]*regexp.Regexp // compiled expressions, by their text
}

// New returns an empty group. loading must be true if the log's records will be passed to Replay;
// then the caller must call Loaded after the last record.
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

// Unused reports whether the log contains neither a group record nor a member's record.
func (g *Group) Unused() bool { return !g.stored && len(g.members) == 0 }

// Loaded must be called after all records of the log have been replayed. It starts a session for
// every member.
func (g *Group) Loaded(now time.Time, session time.Duration) {
	g.loading = false
	// Two members may have the same instance id: a member that has left temporarily, and its
	// successor. Process the successor last, so that it becomes the owner of the partitions that both
	// list.
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

// Due returns the time at which Expire must be called for a member. ok is false if the member does
// not exist.
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

// addOwner makes a member the owner of its partitions.
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

// removeOwner removes a member as the owner of its partitions.
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
