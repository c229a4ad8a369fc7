package volumes

import (
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// namesMax is the maximum number of partitions in a LostVolume.
const namesMax = 5

// guard finds partitions that would lose their last in-sync replica.
type guard struct {
	partitions []Partition
	brokers    map[int32]*Broker
	lost       map[int32]bool
}

func newGuard(in Input, causes []v1alpha1.VolumeLossCause) guard {
	g := guard{partitions: in.Partitions, brokers: map[int32]*Broker{}, lost: map[int32]bool{}}
	for i := range in.Brokers {
		g.brokers[in.Brokers[i].ID], g.lost[in.Brokers[i].ID] = &in.Brokers[i], causes[i] != ""
	}
	return g
}

// blocking returns the partitions whose last in-sync replica is on a broker, unless their loss has
// been accepted. topics contains partitions of Topics, and retained contains retained partitions.
// Both are sorted.
func (g guard) blocking(broker int32) (topics, retained []string) {
	for i := range g.partitions {
		p := &g.partitions[i]
		if !g.last(p, broker) || g.accepted(p) {
			continue
		}
		if p.Retained {
			retained = append(retained, p.Name)
		} else {
			topics = append(topics, p.Name)
		}
	}
	return first(topics), first(retained)
}

// last reports whether a broker has the last in-sync replica of a partition: the broker is in the
// ISR with its lost volume, and every other member of the ISR has also lost its volume.
func (g guard) last(p *Partition, broker int32) bool {
	member := false
	for _, m := range p.ISR {
		if m.Broker == broker {
			b := g.brokers[broker]
			// The broker may have joined the ISR with a later volume than the lost one.
			member = m.Directory == "" || m.Directory == b.Directory
		} else if !g.gone(m) {
			return false
		}
	}
	return member
}

// gone reports whether the records of an ISR member are lost: the member's broker has lost its
// volume, or has continued with another volume. If a broker is not running, its volume counts as
// present.
func (g guard) gone(m placement.InSyncReplica) bool {
	b := g.brokers[m.Broker]
	if b == nil {
		return false
	}
	return g.lost[m.Broker] || m.Directory != "" && b.Directory != "" && m.Directory != b.Directory
}

// accepted reports whether a user has accepted the loss of a partition's records. The consent can
// name the claim of any ISR member, because the records of all members are lost. The claim is that
// of the lost volume, or of a later volume that was replaced with consent. A consent that was used
// before the member's directory was created does not count, because it was for an earlier loss.
func (g guard) accepted(p *Partition) bool {
	return p.Accepted != "" && slices.ContainsFunc(p.ISR, func(m placement.InSyncReplica) bool {
		b := g.brokers[m.Broker]
		switch {
		case b == nil:
			return false
		case p.Accepted == b.Claim.UID:
			return g.lost[b.ID]
		}
		return p.Accepted == b.Consent.Claim && (b.Consent.Directory == "" ||
			m.Directory != "" && m.Directory != b.Consent.Directory)
	})
}

func first(names []string) []string {
	slices.Sort(names)
	return names[:min(len(names), namesMax)]
}
