package consumer

import (
	"cmp"
	"slices"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// Description is the response to ConsumerGroupDescribe for one group.
type Description struct {
	ID, State, Assignor    string
	Epoch, AssignmentEpoch int32
	Members                []MemberDescription // sorted by id
}

// MemberDescription describes a member.
type MemberDescription struct {
	ID    string
	Epoch int32
	Profile
	Assigned, Target assignor.Assignment
}

// State returns Kafka's name for the group's state.
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

// Describe returns a description of the group, which shares data with the group. The caller must
// not modify the description.
func (g *Group) Describe() Description {
	d := Description{ID: g.ID, State: g.State(), Assignor: g.assignor(), Epoch: g.epoch,
		AssignmentEpoch: g.assignmentEpoch}
	for _, m := range g.members {
		d.Members = append(d.Members,
			MemberDescription{m.ID, m.Epoch, m.Profile, m.Assigned.assignment(), g.targets[m.ID]})
	}
	slices.SortFunc(d.Members, func(a, b MemberDescription) int { return cmp.Compare(a.ID, b.ID) })
	return d
}

// Subscriptions returns the names of the topics to which members subscribe, by name or by
// expression.
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

// Partition identifies a partition.
type Partition struct {
	Topic assignor.TopicID
	Index int32
}

// CheckCommit returns an error if a member's commit is too late: the member no longer owns the
// partition, or the commit's epoch is older than the epoch in which the member got the partition
// (KIP-1251). In its current epoch a member may commit offsets for any partition, as in Kafka.
func (g *Group) CheckCommit(memberID string, epoch int32, partitions []Partition) error {
	m := g.members[memberID]
	switch {
	case m == nil && epoch < 0 && len(g.members) == 0:
		return nil // commit of an admin tool to a group without members
	case m == nil:
		return ErrUnknownMember
	case epoch == m.Epoch:
		return nil
	case epoch > m.Epoch || epoch < 0:
		return ErrStaleEpoch
	}
	for _, p := range partitions {
		since, owned := m.Assigned[p.Topic][p.Index]
		if !owned {
			since, owned = m.Revoking[p.Topic][p.Index]
		}
		if !owned || epoch < since {
			return ErrStaleEpoch
		}
	}
	return nil
}

// CheckFetch returns an error if a member fetches offsets with an epoch other than its current one.
// It accepts clients without a member id.
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
