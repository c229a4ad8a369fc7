package replica

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// partition is one partition's log on this broker, and the broker's part in it.
type partition struct {
	id    PartitionID
	topic metadata.ID
	log   *logstore.Log        // nil when it could not be opened
	role  atomic.Pointer[role] // never nil once Apply returned
	traffic
}

// role is this broker's part in a partition from one image to the next. It is immutable.
type role struct {
	epoch    int32 // of the partition's leader, whoever that is
	refusal  error // nil: this broker leads and serves the partition
	isr      int   // in-sync replicas, this one included
	minISR   int
	replicas int // that the partition has in the image
}

// check fails unless this broker leads the partition and the epoch is the one that the client knows (-1: any). The epoch comes
// first, as in Kafka: a client with an old epoch has old metadata, whoever leads.
func (r *role) check(epoch int32) error {
	switch {
	case epoch >= 0 && epoch < r.epoch:
		return fmt.Errorf("%w: client has %d, partition %d", ErrFencedLeaderEpoch, epoch, r.epoch)
	case epoch > r.epoch:
		return fmt.Errorf("%w: client has %d, partition %d", ErrUnknownLeaderEpoch, epoch, r.epoch)
	}
	return r.refusal
}

// since fails if this broker does not lead the partition any more, or not in the same epoch as when then was its role.
func (p *partition) since(then *role) error {
	now := p.role.Load()
	if now.refusal != nil {
		return now.refusal
	}
	if now.epoch != then.epoch {
		return fmt.Errorf("%w in epoch %d any more", ErrNotLeader, then.epoch)
	}
	return nil
}

// advance moves the high watermark as far as every in-sync replica vouches for the log, and tells whether it moved. There is one
// replica, this one: see Apply.
func (p *partition) advance() bool { return p.log.AdvanceHighWatermark(p.log.SafeEnd()) }

// State is a partition replica as metrics and reports show it.
type State struct {
	ID              PartitionID
	Log             *logstore.Log // nil when it could not be opened
	Leader          bool
	LeaderEpoch     int32
	UnderReplicated bool  // as its leader knows it: fewer in-sync replicas than replicas
	Fault           error // why this broker cannot serve what it should; nil: nothing
}

// States returns the state of every partition here, sorted by topic and index.
func (s *Set) States() []State {
	partitions := s.view.Load().partitions
	states := make([]State, 0, len(partitions))
	for _, p := range partitions {
		states = append(states, p.state())
	}
	slices.SortFunc(states, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.ID.Topic, b.ID.Topic), cmp.Compare(a.ID.Index, b.ID.Index))
	})
	return states
}

// state puts log and role together. That another broker leads is no fault.
func (p *partition) state() State {
	r := p.role.Load()
	state := State{ID: p.id, Log: p.log, Leader: r.refusal == nil, LeaderEpoch: r.epoch}
	state.UnderReplicated = state.Leader && r.isr < r.replicas
	switch {
	case p.log != nil && p.log.Fault() != nil:
		state.Fault = p.log.Fault() // appends are refused by the log itself; reads go on as long as they can
	case r.refusal != ErrNotLeader: //nolint:errorlint // exactly this value is the refusal of a broker that should not lead
		state.Fault = r.refusal
	}
	return state
}
