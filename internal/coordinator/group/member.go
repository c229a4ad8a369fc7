package group

import (
	"bytes"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
)

// Protocol is a way to assign that a member knows, and what it says of itself for it.
type Protocol struct {
	Name     string
	Metadata []byte
}

// member is one of a group.
type member struct {
	id, instance         string // instance: group.instance.id, "" for a dynamic member
	clientID, clientHost string
	session, rebalance   time.Duration
	protocols            []Protocol // in the order of its preference
	assignment           []byte     // in the group's generation, as replayed

	joining, syncing Token // waits for that
	// has never been told its id by an answer to a join: it sends no heartbeats
	isNew    bool
	deadline time.Time // of its session
}

// sizeBytes is what the member takes of the group's record at most, roughly.
func (m *member) sizeBytes() int {
	largest := 0
	for i := range m.protocols {
		largest = max(largest, len(m.protocols[i].Metadata))
	}
	return len(m.id) + len(m.instance) + len(m.clientID) + len(m.clientHost) + largest + 32
}

// supports tells whether the member knows a protocol.
func (m *member) metadata(protocol string) (metadata []byte, supports bool) {
	for i := range m.protocols {
		if m.protocols[i].Name == protocol {
			return m.protocols[i].Metadata, true
		}
	}
	return nil, false
}

// says tells whether the member would say the same of itself again.
func (m *member) says(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// phase is where a group is in its life (doc.go).
type phase int8

const (
	empty phase = iota
	preparing
	completing
	stable
)

// String is what Kafka's tools call it.
func (p phase) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[p]
}

// group is a group's state. Fields without a note are stored, and change by Replay only, except as
// completeJoin says.
type group struct {
	id           string
	generation   int32
	protocolType string
	protocol     string
	leader       string
	kept         bool      // there is a record of it, beside its offsets
	since        time.Time // it is in its stored phase; zero: unknown
	offsets      map[topicPartition]Offset
	consumer     *consumer.Group // of the consumer protocol (consumer.go); nil: of the classic one

	// Not stored.
	phase     phase
	before    phase // the one before
	members   []*member
	byID      map[string]*member
	instances map[string]string    // group.instance.id: member id
	promised  map[string]time.Time // ids that were given out and have not joined yet: until when
	unsynced  map[string]bool      // members of this generation that have not synced
	newcomers bool                 // some came during the initial delay
	phaseEnd  time.Time            // the time for the phase is up; zero: it has none
	delayLeft time.Duration        // how much longer the initial delay may become
	sizeBytes int                  // of all members
}

func (s *State) newGroup(id string) *group {
	g := &group{
		id: id, offsets: map[topicPartition]Offset{}, byID: map[string]*member{},
		instances: map[string]string{},
		promised:  map[string]time.Time{}, unsynced: map[string]bool{},
	}
	s.groups[id] = g
	return g
}

// groupOf returns a group, made if there is none.
func (s *State) groupOf(id string) *group {
	if g := s.groups[id]; g != nil {
		return g
	}
	return s.newGroup(id)
}

// dropIfVoid forgets a group of which nothing is left.
func (s *State) dropIfVoid(g *group) {
	if g.phase == empty && !g.kept && g.consumer == nil && len(g.offsets) == 0 &&
		len(g.members) == 0 && len(g.promised) == 0 && !s.loading {
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

// check refuses who is no member. The instance comes first: whoever was replaced has to learn that
// (KIP-345).
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

// awaits tells whether an id was given out and has not joined yet.
func (g *group) awaits(memberID string) bool {
	_, promised := g.promised[memberID]
	return promised
}

func (g *group) turn(to phase) { g.before, g.phase = g.phase, to }

// rebalanceTimeout is the longest that a member takes to come.
func (g *group) rebalanceTimeout() (longest time.Duration) {
	for _, m := range g.members {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// joiningCount is how many members wait to join.
func (g *group) joiningCount() (n int) {
	for _, m := range g.members {
		if m.joining != 0 {
			n++
		}
	}
	return n
}

func (g *group) allJoined() bool {
	return len(g.promised) == 0 &&
		g.joiningCount() == len(g.members)
}

// supports tells whether one with these protocols could be a member beside the others.
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

// choose is the protocol that all know and most prefer; of several the one that the eldest member
// likes best.
func (g *group) choose() string {
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
