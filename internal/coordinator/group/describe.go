package group

import (
	"cmp"
	"slices"
)

// Description is a group as tools show it.
type Description struct {
	ID, Phase, ProtocolType, Protocol string
	// those of groups that are Stable have metadata and an assignment
	Members []MemberDescription
}

// MemberDescription is a member of a Description.
type MemberDescription struct {
	ID, Instance, ClientID, ClientHost string
	Metadata, Assignment               []byte
}

// Describe returns a group; ErrNotFound, also of one of the consumer protocol.
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

// shownPhase is what Kafka's tools call the state that a group of either protocol is in.
func (g *group) shownPhase() string {
	if g.consumer != nil {
		return g.consumer.State()
	}
	return g.phase.String()
}

// Listing is a group in a list.
type Listing struct {
	ID, Phase, ProtocolType string
	Consumer                bool // it is of the consumer protocol
}

// List returns all groups, sorted by id.
func (s *State) List() []Listing {
	all := make([]Listing, 0, len(s.groups))
	for _, g := range s.groups {
		all = append(all, Listing{g.id, g.shownPhase(), g.protocolType, g.consumer != nil})
	}
	slices.SortFunc(all, func(a, b Listing) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
