package group

import (
	"bytes"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
)

// Protocol is an assignment strategy that a member supports. Metadata contains the member's
// subscription, in the strategy's format.
type Protocol struct {
	Name     string
	Metadata []byte
}

// member is a member of the classic protocol.
type member struct {
	id, instance         string // member id and group.instance.id, which is "" for a dynamic member
	clientID, clientHost string
	session, rebalance   time.Duration
	protocols            []Protocol // protocols that the member supports, the preferred one first
	assignment           []byte     // assignment in the group's generation; set by Replay

	// joining and syncing are the tokens of the Join and the Sync that are waiting for an answer; 0 if
	// none is waiting.
	joining, syncing Token
	// isNew is set until the member's first join has been answered. Until then the client does not
	// know its member id and sends no heartbeats.
	isNew    bool
	deadline time.Time // end of the member's session
}

// sizeBytes returns an approximate upper bound on the number of bytes that the member adds to the
// group's record.
func (m *member) sizeBytes() int {
	largest := 0
	for i := range m.protocols {
		largest = max(largest, len(m.protocols[i].Metadata))
	}
	return len(m.id) + len(m.instance) + len(m.clientID) + len(m.clientHost) + largest + 32
}

// metadata returns the member's subscription for a protocol. supports is false if the member does
// not support the protocol.
func (m *member) metadata(protocol string) (metadata []byte, supports bool) {
	for i := range m.protocols {
		if m.protocols[i].Name == protocol {
			return m.protocols[i].Metadata, true
		}
	}
	return nil, false
}

// hasProtocols reports whether the member has exactly these protocols and subscriptions.
func (m *member) hasProtocols(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// phase is a group's state in the diagram in the package comment (doc.go).
type phase int8

const (
	empty phase = iota
	preparing
	completing
	stable
)

// String returns the phase's name, as Kafka's tools show it.
func (p phase) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[p]
}

// group is the state of a group. The fields of the first block are stored, and only Replay changes
// them, with one exception: completeJoin changes the generation, the protocol and the leader before
// they are stored.
type group struct {
	id           string
	generation   int32
	protocolType string
	protocol     string
	leader       string
	stored       bool      // true if a group record is stored, and not only offsets
	phaseSince   time.Time // time at which the stored phase began; zero: unknown
	offsets      map[topicPartition]Offset
	pending      pendingOffsets // pending offsets of open transactions; nil before the first one
	// consumer is the state of the consumer protocol (consumer.go); nil in a classic group.
	consumer *consumer.Group

	// The fields below are volatile.
	phase         phase
	previousPhase phase
	members       []*member
	byID          map[string]*member
	instances     map[string]string // member ids by group.instance.id
	// pendingIDs maps member ids that were sent to clients, but with which no client has joined yet,
	// to their expiry.
	pendingIDs map[string]time.Time
	// unsynced contains the ids of members that have joined this generation but have not sent a Sync.
	unsynced       map[string]bool
	joinedInDelay  bool          // true if a member joined during the current initial delay
	phaseEnd       time.Time     // time at which the phase times out; zero if it does not
	delayRemaining time.Duration // time by which the initial delay may still be extended
	sizeBytes      int           // sum of member.sizeBytes over all members
}

func (s *State) newGroup(id string) *group {
	g := &group{
		id: id, offsets: map[topicPartition]Offset{}, byID: map[string]*member{},
		instances:  map[string]string{},
		pendingIDs: map[string]time.Time{}, unsynced: map[string]bool{},
	}
	s.groups[id] = g
	return g
}

// groupOrNew returns the group with the given id, and creates it if it does not exist.
func (s *State) groupOrNew(id string) *group {
	if g := s.groups[id]; g != nil {
		return g
	}
	return s.newGroup(id)
}

// deleteIfUnused deletes a group that has no members, no offsets and no stored state. A group with
// pending offsets is kept, because these may become committed offsets (KAFKA-19163).
func (s *State) deleteIfUnused(g *group) {
	if g.phase == empty && !g.stored && g.consumer == nil && len(g.offsets) == 0 &&
		len(g.pending) == 0 && len(g.members) == 0 && len(g.pendingIDs) == 0 && !s.loading {
		delete(s.groups, g.id)
	}
}

func (g *group) add(m *member) {
	g.members = append(g.members, m)
	g.byID[m.id] = m
	g.sizeBytes += m.sizeBytes()
	if m.instance != "" {
		g.instances[m.instance] = m.id
	}
}

func (g *group) remove(m *member) {
	g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	delete(g.byID, m.id)
	delete(g.unsynced, m.id)
	g.sizeBytes -= m.sizeBytes()
	if m.instance != "" && g.instances[m.instance] == m.id {
		delete(g.instances, m.instance)
	}
	if g.leader == m.id {
		g.leader = ""
	}
}

// check returns the member with the given id. It checks the instance id first, so that a replaced
// static member gets ErrFencedInstance (KIP-345).
func (g *group) check(memberID, instance string) (*member, error) {
	if instance != "" {
		switch current, known := g.instances[instance]; {
		case !known:
			return nil, ErrUnknownMember
		case current != memberID:
			return nil, ErrFencedInstance
		}
	}
	if m := g.byID[memberID]; m != nil {
		return m, nil
	}
	return nil, ErrUnknownMember
}

// isPending reports whether a member id was sent to a client that has not joined with it yet.
func (g *group) isPending(memberID string) bool {
	_, pending := g.pendingIDs[memberID]
	return pending
}

func (g *group) setPhase(to phase) { g.previousPhase, g.phase = g.phase, to }

// rebalanceTimeout returns the longest rebalance timeout of all members.
func (g *group) rebalanceTimeout() (longest time.Duration) {
	for _, m := range g.members {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// joining returns the number of members whose Join waits for an answer.
func (g *group) joining() (n int) {
	for _, m := range g.members {
		if m.joining != 0 {
			n++
		}
	}
	return n
}

func (g *group) allJoined() bool {
	return len(g.pendingIDs) == 0 &&
		g.joining() == len(g.members)
}

// supports reports whether a member with the given protocols has a protocol in common with all
// members of the group other than except, which may be nil.
func (g *group) supports(protocolType string, protocols []Protocol, except *member) bool {
	if protocolType == "" || len(protocols) == 0 {
		return false
	}
	if len(g.members) == 0 {
		return true
	}
	if protocolType != g.protocolType {
		return false
	}
	return slices.ContainsFunc(protocols, func(p Protocol) bool {
		return !slices.ContainsFunc(g.members, func(m *member) bool {
			if m == except {
				return false
			}
			_, supports := m.metadata(p.Name)
			return !supports
		})
	})
}

// selectProtocol returns the protocol that most members prefer among the protocols that all members
// support. In the case of a tie, the oldest member's preference decides.
func (g *group) selectProtocol() string {
	votes := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.supports(g.protocolType, []Protocol{p}, nil) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, p := range g.members[0].protocols {
		if votes[p.Name] > votes[best] {
			best = p.Name
		}
	}
	return best
}
