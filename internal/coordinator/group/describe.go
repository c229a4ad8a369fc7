package group

import (
	"cmp"
	"slices"
)

// Description is the response to DescribeGroups for one group.
type Description struct {
	ID, Phase, ProtocolType, Protocol string
	Members                           []MemberDescription
}

// MemberDescription describes a member. Metadata and Assignment are set only if the group's phase
// is Stable.
type MemberDescription struct {
	ID, Instance, ClientID, ClientHost string
	Metadata, Assignment               []byte
}

// Describe returns the description of a group of the classic protocol. It returns ErrNotFound if
// the group does not exist or uses the consumer protocol.
func (s *State) Describe(groupID string) (Description, error) {
	g := s.groups[groupID]
	if g == nil || g.consumer != nil {
		return Description{}, ErrNotFound
	}
	d := Description{ID: g.id, Phase: g.phase.String(), ProtocolType: g.protocolType}
	if g.phase == stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.members {
		shown := MemberDescription{ID: m.id, Instance: m.instance, ClientID: m.clientID,
			ClientHost: m.clientHost}
		if g.phase == stable {
			shown.Metadata, _ = m.metadata(g.protocol)
			shown.Assignment = m.assignment
		}
		d.Members = append(d.Members, shown)
	}
	return d, nil
}

// phaseName returns Kafka's name for the group's state. The group may use either protocol.
func (g *group) phaseName() string {
	if g.consumer != nil {
		return g.consumer.State()
	}
	return g.phase.String()
}

// Listing is a group's entry in the response to ListGroups.
type Listing struct {
	ID, Phase, ProtocolType string
	Consumer                bool // true if the group uses the consumer protocol
}

// List returns all groups, sorted by id.
func (s *State) List() []Listing {
	all := make([]Listing, 0, len(s.groups))
	for _, g := range s.groups {
		all = append(all, Listing{g.id, g.phaseName(), g.protocolType, g.consumer != nil})
	}
	slices.SortFunc(all, func(a, b Listing) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
