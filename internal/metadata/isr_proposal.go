package metadata

import "heartwood.dev/heartwood/internal/placement"

// Proposal converts the change to the argument for placement.ChangeISR.
func (c ISRChange) Proposal() placement.Proposal {
	proposal := placement.Proposal{LeaderEpoch: c.LeaderEpoch, From: c.From,
		ReplicaIncarnations: make(map[int32]string, len(c.To))}
	for _, m := range c.To {
		proposal.To = append(proposal.To, placement.InSyncReplica{Broker: m.Broker, Epoch: m.Epoch})
		proposal.ReplicaIncarnations[m.Broker] = m.ReplicaIncarnation
	}
	return proposal
}
