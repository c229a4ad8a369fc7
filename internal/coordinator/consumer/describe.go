package consumer

import (
	"cmp"
	"slices"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// Description is a group as tools show it.
type Description struct {
	ID, State, Assignor    string
	Epoch, AssignmentEpoch int32
	Members                []MemberDescription // sorted by id
}

// MemberDescription is a member of a Description.
type MemberDescription struct {
	ID    string
	Epoch int32
	Profile
	Assigned, Target assignor.Assignment
}

// State is what Kafka's tools call it.
func (g *Group) State() string {
	switch {
	case len(g.members) == 0:
		return "Empty"
	case g.epoch > g.assignmentEpoch:
		return "Assigning"
	}
	for _, m := range g.members {
		if m.Phase != Stable || m.Epoch != g.assignmentEpoch {
			return "Reconciling"
		}
	}
	return "Stable"
}

// Describe returns the group; what is in it is not to be changed.
func (g *Group) Describe() Description {
	d := Description{ID: g.ID, State: g.State(), Assignor: g.chosen(), Epoch: g.epoch,
		AssignmentEpoch: g.assignmentEpoch}
	for _, m := range g.members {
		d.Members = append(d.Members,
			MemberDescription{m.ID, m.Epoch, m.Profile, m.Assigned.assignment(), g.targets[m.ID]})
	}
	slices.SortFunc(d.Members, func(a, b MemberDescription) int { return cmp.Compare(a.ID, b.ID) })
	return d
}

// Subscriptions are the topics that members subscribe to.
func (g *Group) Subscriptions() map[string]bool {
	topics := map[string]bool{}
	for _, m := range g.members {
		for _, topic := range m.Topics {
			topics[topic] = true
		}
	}
	for _, r := range g.resolved {
		for _, topic := range r.Topics {
			topics[topic] = true
		}
	}
	return topics
}

// Partition is one of a topic.
type Partition struct {
	Topic assignor.TopicID
	Index int32
}

// CheckCommit refuses a member's commit that comes too late: of an epoch before the one in which the
// member got the partition (KIP-1251), or of a partition that is not its any more. In its own epoch
// it may commit what it likes, as in Kafka.
func (g *Group) CheckCommit(memberID string, epoch int32, of []Partition) error {
	m := g.members[memberID]
	switch {
	case m == nil && epoch < 0 && len(g.members) == 0:
		return nil // an admin tool
	case m == nil:
		return ErrUnknownMember
	case epoch == m.Epoch:
		return nil
	case epoch > m.Epoch || epoch < 0:
		return ErrStaleEpoch
	}
	for _, p := range of {
		got, its := m.Assigned[p.Topic][p.Index]
		if !its {
			got, its = m.Revoking[p.Topic][p.Index]
		}
		if !its || epoch < got {
			return ErrStaleEpoch
		}
	}
	return nil
}

// CheckFetch refuses to tell offsets to a member that is in another epoch than it thinks; without a
// member's id anybody may ask.
func (g *Group) CheckFetch(memberID string, epoch int32) error {
	m := g.members[memberID]
	switch {
	case memberID == "" && epoch < 0:
		return nil
	case m == nil:
		return ErrUnknownMember
	case epoch != m.Epoch:
		return ErrStaleEpoch
	}
	return nil
}
