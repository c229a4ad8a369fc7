package partitionset

import (
	"errors"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// ChangeISR makes an ISR change that a partition's leader proposes, and returns the partition epoch
// after the change, which is State.Changes. After a refusal the set is unchanged, and the error
// wraps metadata.ErrISRConflict.
//
// If the ISR already equals the proposed one, ChangeISR counts a change nevertheless. This happens
// if the leader has lost the response to an earlier proposal, or if a proxy has repeated the
// request. The write gives the set another version, so that no earlier proposal of the leader that
// is still in transit can take effect.
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

// ledBy reports whether a proposal is from the present leader epoch, and contains the leader in the
// broker epoch in which it was elected. Only an election changes the leader's broker epoch, or
// makes a leader that has left the ISR a member again.
func (s *State) ledBy(change metadata.ISRChange) bool {
	return slices.ContainsFunc(change.To, func(m metadata.InSync) bool {
		return m.Broker == s.Leader && s.Leads(placement.InSyncReplica{Broker: m.Broker,
			Epoch: m.Epoch}, change.LeaderEpoch)
	})
}

// hasISR reports whether the ISR consists of the given members.
func (s *State) hasISR(members []metadata.InSync) bool {
	return len(members) == len(s.ISR) &&
		!slices.ContainsFunc(s.ISR, func(m placement.InSyncReplica) bool {
			return !slices.Contains(members, metadata.InSync{Broker: m.Broker, Epoch: m.Epoch,
				ReplicaIncarnation: s.ReplicaIncarnations[m.Broker]})
		})
}

// Leads reports whether a broker leads the partition in the given leader epoch, and in the broker
// epoch in which it was elected.
func (s *State) Leads(self placement.InSyncReplica, leaderEpoch int32) bool {
	return s != nil && s.Leader == self.Broker && s.LeaderEpoch == leaderEpoch &&
		slices.ContainsFunc(s.ISR, func(m placement.InSyncReplica) bool {
			return m.Broker == self.Broker && m.Epoch == self.Epoch
		})
}

// Serve records that the leader serves a partition. After a later election, it has no effect.
func (s *Set) Serve(key Key, self placement.InSyncReplica, leaderEpoch int32) {
	entry, _ := s.Get(key)
	if !entry.State.Leads(self, leaderEpoch) {
		return
	}
	next := *entry.State
	next.Serving = true
	s.PutState(key, next)
}

// StopServing records that the leader no longer serves a partition, because its log has stopped.
// After a later election, it has no effect.
func (s *Set) StopServing(key Key, self placement.InSyncReplica, leaderEpoch int32,
	brokers map[int32]placement.BrokerState) {
	if entry, _ := s.Get(key); entry.State.Leads(self, leaderEpoch) {
		s.StopLog(key, self, brokers)
	}
}

// StopLog records that a replica's log has stopped, so that the replica neither serves nor follows.
// If another broker can lead, the replica leaves the ISR; the other members have every acknowledged
// record. If the replica leads, another one is then elected. The last member remains in the ISR,
// because no other replica has the records.
func (s *Set) StopLog(key Key, self placement.InSyncReplica,
	brokers map[int32]placement.BrokerState) {
	entry, _ := s.Get(key)
	if entry.State.KnowsStop(self, brokers) {
		return
	}
	next := *entry.State
	next.Serving = next.Serving && next.Leader != self.Broker
	if entry.State.mayLeave(self, brokers) {
		next.ISR = slices.DeleteFunc(slices.Clone(next.ISR),
			func(m placement.InSyncReplica) bool { return m.Broker == self.Broker })
	}
	s.PutState(key, next)
}

// KnowsStop reports whether StopLog would not change the state. A report from an earlier process of
// the broker changes nothing, because the log may work again.
func (s *State) KnowsStop(self placement.InSyncReplica,
	brokers map[int32]placement.BrokerState) bool {
	return s == nil || !(s.Serving && s.Leads(self, s.LeaderEpoch)) && !s.mayLeave(self, brokers)
}

// mayLeave reports whether a broker is in the ISR in this broker epoch, and another member can
// lead.
func (s *State) mayLeave(self placement.InSyncReplica,
	brokers map[int32]placement.BrokerState) bool {
	inSync, othersLead := false, false
	for _, m := range s.ISR {
		b, known := brokers[m.Broker]
		if m.Broker == self.Broker {
			inSync = m.Epoch == self.Epoch
		} else {
			othersLead = othersLead || known && b.Epoch == m.Epoch && !b.Leaving
		}
	}
	return inSync && othersLead
}

// ReportLostLog records that a replica has lost records that were in its log of the given
// incarnation (placement.LoseLog). next is a new, unique incarnation id.
func (s *Set) ReportLostLog(key Key, self int32, incarnation, next string) {
	entry, _ := s.Get(key)
	if entry.State == nil {
		return
	}
	changed := *entry.State
	changed.Partition = placement.LoseLog(entry.State.Partition, self, incarnation, next)
	s.PutState(key, changed)
}

// DiscardLog makes a replica leave the ISR and be copied again, if enough healthy replicas remain
// in sync (placement.DiscardLog).
func (s *Set) DiscardLog(key Key, d placement.Discard, brokers map[int32]placement.BrokerState) {
	entry, _ := s.Get(key)
	if entry.State == nil {
		return
	}
	changed := *entry.State
	changed.Partition = placement.DiscardLog(entry.State.Partition, d, brokers)
	changed.Serving = changed.Serving && changed.LeaderEpoch == entry.State.LeaderEpoch
	s.PutState(key, changed)
}

// RecordLoss records a loss that a broker has found before it registers. It does not change the
// set again if the loss is already recorded. The caller has checked that the entry belongs to the
// log's topic.
func (s *Set) RecordLoss(key Key, self int32, lost metadata.LostLog) {
	entry, _ := s.Get(key)
	if entry.State == nil {
		return
	}
	incarnation := entry.State.ReplicaIncarnations[self]
	if lost.ReplicaIncarnation != nil {
		incarnation = *lost.ReplicaIncarnation
	}
	s.ReportLostLog(key, self, incarnation, lost.Next)
}

// ReportFoundEpoch records that the leader's log contains a leader epoch that is not below the
// epoch of its election (metadata.Served.Ahead).
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
