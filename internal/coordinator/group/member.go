package group

import (
	"bytes"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
)

// Protocol is an assignment strategy that a member supports. Metadata is the member's subscription,
// in the format of the strategy.
type Protocol struct {
	Name     string
	Metadata []byte
}

// member is a member of the classic protocol.
type member struct {
	id, instance         string // group.instance.id is "" for a dynamic member
	clientID, clientHost string
	session, rebalance   time.Duration
	protocols            []Protocol // protocols that the member supports, the preferred one first
	assignment           []byte     // in the group's generation; set by Replay

	joining, syncing Token // the Join and the Sync that wait for an answer; 0 if none
	// isNew is set until the member's first join is answered. Until then the member does not know
	// its id and sends no heartbeats.
	isNew    bool
	deadline time.Time // end of the member's session
}

// sizeBytes returns an approximate upper bound of the bytes that the member adds to the group's
// record.
func (m *member) sizeBytes() int {
	largest := 0
	for i := range m.protocols {
		largest = max(largest, len(m.protocols[i].Metadata))
	}
	return len(m.id) + len(m.instance) + len(m.clientID) + len(m.clientHost) + largest + 32
}

// metadata returns the member's subscription for a protocol. It returns false if the member does
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

// phase is the state of a group in the diagram of the package comment (doc.go).
type phase int8

const (
	empty phase = iota
	preparing
	completing
	stable
)

// String returns the name of the phase that Kafka's tools show.
func (p phase) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[p]
}

// group is the state of a group. Only Replay changes the fields of the first block, which are
// stored. As an exception, completeJoin changes the generation, the protocol and the leader before
// they are stored.
type group struct {
	id           string
	generation   int32
	protocolType string
	protocol     string
	leader       string
	stored       bool      // a group record is stored; false if only offsets are
	phaseSince   time.Time // time at which the stored phase began; zero: unknown
	offsets      map[topicPartition]Offset
	pending      pendingOffsets // of open transactions; nil before the first one
	// state of the consumer protocol (consumer.go); nil in a classic group
	consumer *consumer.Group

	// The fields below are volatile.
	phase         phase
	previousPhase phase
	members       []*member
	byID          map[string]*member
	instances     map[string]string // member ids by group.instance.id
	// member ids that were handed to clients that have not joined with them yet, each with its
	// expiry
	pendingIDs map[string]time.Time
	// ids of the members that have joined this generation but not sent a Sync
	unsynced       map[string]bool
	joinedInDelay  bool          // a member joined during the present initial delay
	phaseEnd       time.Time     // end of the phase by timeout; zero: no timeout
	delayRemaining time.Duration // total of the extensions that the initial delay may still get
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

// groupOrNew returns the group with an id. It creates the group if the group does not exist.
func (s *State) groupOrNew(id string) *group {
	if g := s.groups[id]; g != nil {
		return g
	}
	return s.newGroup(id)
}

// deleteIfUnused deletes a group that has no members, no offsets and no stored state. A group with
// pending offsets stays, because they may become committed offsets (KAFKA-19163).
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

// check returns the member with an id. It checks the instance id first, so that a replaced static
// member gets ErrFencedInstance (KIP-345).
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

// isPending reports whether a member id was handed to a client that has not joined with it yet.
func (g *group) isPending(memberID string) bool {
	_, pending := g.pendingIDs[memberID]
	return pending
}

func (g *group) setPhase(to phase) { g.previousPhase, g.phase = g.phase, to }

// rebalanceTimeout returns the longest rebalance timeout of the members.
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

// supports reports whether a member with the given protocols would have a protocol in common with
// all members of the group. Member except, which may be nil, is ignored.
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

// selectProtocol returns the protocol that most members prefer among those that all members
// support. On a tie, it is the protocol that the oldest member prefers.
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
