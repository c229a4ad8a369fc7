package partitionset

import (
	"errors"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// ChangeISR makes an ISR change that the leader of a partition proposes, and returns the partition
// epoch after it, which is State.Changes. After a refusal the set is unchanged, and the error wraps
// metadata.ErrISRConflict.
//
// If the ISR already equals the proposed one, the change is counted nevertheless. This happens if
// the leader has lost the response to an earlier proposal, or if a proxy has repeated the request.
// The write gives the set another version, so that no earlier proposal of the leader that is still
// in transit can take effect.
func (s *Set) ChangeISR(key Key, change metadata.ISRChange,
	brokers map[int32]placement.BrokerState) (partitionEpoch int64, err error) {
	entry, _ := s.Get(key)
	if entry.State == nil {
		return 0, fmt.Errorf("%w: partition %s has no state", metadata.ErrISRConflict, key)
	}
	if !entry.State.ledBy(change) {
		return 0, fmt.Errorf("%w: the proposed leader of partition %s is not the one that was elected, "+
			"or is not in sync", metadata.ErrISRConflict, key)
	}
	if entry.State.hasISR(change.To) {
		s.confirm(key)
		return s.states[key].value.Changes, nil
	}
	changed, err := placement.ChangeISR(entry.State.Partition, change.Proposal(), brokers)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("%w: partition %s", metadata.ErrISRConflict, key), err)
	}
	next := *entry.State
	next.Partition = changed
	s.sortISR(&next)
	// If the ISR grows, a follower has caught up, so the leader must be serving.
	next.Serving = next.Serving || len(change.To) > len(change.From)
	s.PutState(key, next)
	return s.states[key].value.Changes, nil
}

// ledBy reports whether a proposal is of the present leader epoch, and contains the leader in the
// broker epoch in which it was elected. Only an election changes the broker epoch of the leader, or
// makes a leader that has left the ISR a member again.
func (s *State) ledBy(change metadata.ISRChange) bool {
	return slices.ContainsFunc(change.To, func(m metadata.InSync) bool {
		return m.Broker == s.Leader && s.Leads(placement.InSyncReplica{Broker: m.Broker,
			Epoch: m.Epoch}, change.LeaderEpoch)
	})
}

// hasISR reports whether the ISR consists of these members.
func (s *State) hasISR(members []metadata.InSync) bool {
	return len(members) == len(s.ISR) &&
		!slices.ContainsFunc(s.ISR, func(m placement.InSyncReplica) bool {
			return !slices.Contains(members, metadata.InSync{Broker: m.Broker, Epoch: m.Epoch,
				ReplicaIncarnation: s.ReplicaIncarnations[m.Broker]})
		})
}

// Leads reports whether a broker leads a partition in a leader epoch, and in the broker epoch in
// which it was elected.
func (s *State) Leads(self placement.InSyncReplica, leaderEpoch int32) bool {
	return s != nil && s.Leader == self.Broker && s.LeaderEpoch == leaderEpoch &&
		slices.ContainsFunc(s.ISR, func(m placement.InSyncReplica) bool {
			return m.Broker == self.Broker && m.Epoch == self.Epoch
		})
}

// Serve records that a leader serves a partition. It has no effect after a later election.
func (s *Set) Serve(key Key, self placement.InSyncReplica, leaderEpoch int32) {
	entry, _ := s.Get(key)
	if !entry.State.Leads(self, leaderEpoch) {
		return
	}
	next := *entry.State
	next.Serving = true
	s.PutState(key, next)
}

// StopServing records that a leader no longer serves a partition, because its log has failed. If
// another broker can lead, the leader leaves the ISR, so that the operator elects another one.
func (s *Set) StopServing(key Key, self placement.InSyncReplica, leaderEpoch int32,
	brokers map[int32]placement.BrokerState) {
	entry, _ := s.Get(key)
	if !entry.State.Leads(self, leaderEpoch) {
		return
	}
	next := *entry.State
	next.Serving = false
	if slices.ContainsFunc(next.ISR, func(m placement.InSyncReplica) bool {
		b, known := brokers[m.Broker]
		return m.Broker != self.Broker && known && b.Epoch == m.Epoch && !b.Leaving
	}) {
		next.ISR = slices.DeleteFunc(slices.Clone(next.ISR),
			func(m placement.InSyncReplica) bool { return m.Broker == self.Broker })
		next.LeaderDirectory = entry.State.LeaderDirectory
	}
	s.PutState(key, next)
}

// ReportLostLog records that a replica has lost records that were in its log of an incarnation
// (placement.LoseLog). next is a new unique incarnation id.
func (s *Set) ReportLostLog(key Key, self int32, incarnation, next string) {
	entry, _ := s.Get(key)
	if entry.State == nil {
		return
	}
	changed := *entry.State
	changed.Partition = placement.LoseLog(entry.State.Partition, self, incarnation, next)
	s.PutState(key, changed)
}

// ReportFoundEpoch records that the log of the leader contains a leader epoch that is not below
// that of its election (metadata.Served.Ahead).
func (s *Set) ReportFoundEpoch(key Key, self int32, found int32) {
	entry, _ := s.Get(key)
	if entry.State == nil || entry.State.Leader != self || entry.State.LeaderEpoch > found ||
		entry.State.FoundEpoch != nil && *entry.State.FoundEpoch >= found {
		return
	}
	next := *entry.State
	next.FoundEpoch = &found
	s.PutState(key, next)
}

// RequestPreferred requests the election of the preferred leader. The error wraps
// metadata.ErrUnknownPartition, metadata.ErrElectionNotNeeded or metadata.ErrPreferredUnavailable.
func (s *Set) RequestPreferred(key Key) error {
	entry, _ := s.Get(key)
	if entry.Assignment == nil || entry.State == nil {
		return fmt.Errorf("%w: %s", metadata.ErrUnknownPartition, key)
	}
	preferred, next := entry.Assignment.Replicas[0], *entry.State
	switch {
	case next.Leader == preferred:
		return metadata.ErrElectionNotNeeded
	case !slices.ContainsFunc(next.ISR,
		func(m placement.InSyncReplica) bool { return m.Broker == preferred }):
		return fmt.Errorf("%w: broker %d is not in sync", metadata.ErrPreferredUnavailable,
			preferred)
	}
	next.Prefer = next.LeaderEpoch
	s.PutState(key, next)
	return nil
}
