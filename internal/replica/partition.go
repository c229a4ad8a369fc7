package replica

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// partition is one partition's log on this broker, and the broker's part in it.
type partition struct {
	id    PartitionID
	topic metadata.ID
	log   *logstore.Log // nil when it could not be opened
	found int32         // the latest leader epoch of the log when it was taken up; -1: none
	// source is the broker of which the log is a copy that is not whole; metadata.NoBroker: of
	// none. changing guards it.
	source int32
	// assignment is the time as a replica for which the log was made; "": from before there were
	// names. changing guards it.
	assignment string
	// gapEpoch is the leader epoch in which the log was last sent something behind a gap; -1: in
	// none since this broker was in sync. What was cleaned away there may have been superseded by
	// records that are still to come. changing guards it.
	gapEpoch int32
	// gapAhead tells that no image has shown this broker out of sync since the gap came: one that
	// shows it in sync is of before. changing guards it.
	gapAhead bool
	role     atomic.Pointer[role] // never nil once Apply returned
	// changing is held while the role changes, and while a fetcher does to the log what its leader
	// says: so that what one leader said is never done under the next, nor behind the back of a
	// leadership of our own.
	changing sync.Mutex
	// stuck is why this broker cannot follow the leader, nil while it can; for reports.
	stuck  atomic.Pointer[error]
	logger *slog.Logger
	traffic
}

// role is this broker's part in a partition from one image to the next. It is immutable; the reign
// in it is not.
type role struct {
	epoch int32 // of the partition's leader, whoever that is
	// the latest epoch that may have begun without acknowledged records; 0: none. The same for all
	// roles of an epoch
	unproven int32
	refusal  error // nil: this broker leads and serves the partition
	leader   int32 // metadata.NoBroker: nobody
	minISR   int
	replicas []int32
	reign    *reign // nil unless this broker leads
	inSync   bool   // this broker is in the in-sync replicas in this incarnation, says the image
	member   bool   // it is, in this incarnation or an earlier one
	// assignment is by which this broker is a replica, says the image; "": from before there were
	// names. held is the one for which its log was made: that is what its leader is told.
	assignment, held string
	// consumers may read from followers, so these hear of the high watermark at once
	brisk bool
}

// check fails unless this broker leads the partition and the epoch is the one that the client knows
// (-1: any). The epoch comes first, as in Kafka: a client with an old epoch has old metadata,
// whoever leads.
func (r *role) check(epoch int32) error {
	if err := r.checkEpoch(epoch); err != nil {
		return err
	}
	return r.refusal
}

func (r *role) checkEpoch(epoch int32) error {
	switch {
	case epoch >= 0 && epoch < r.epoch:
		return fmt.Errorf("%w: client has %d, partition %d", ErrFencedLeaderEpoch, epoch, r.epoch)
	case epoch > r.epoch:
		return fmt.Errorf("%w: client has %d, partition %d", ErrUnknownLeaderEpoch, epoch, r.epoch)
	}
	return nil
}

// follows tells whether this broker is to copy the log of another.
func (r *role) follows(node int32) bool {
	return r.refusal == ErrNotLeader && r.leader != metadata.NoBroker &&
		r.leader != node //nolint:errorlint // exactly this value: see take
}

// lostSince tells whether records that were below a high watermark in an epoch, or before it, may
// have been lost since.
func (r *role) lostSince(epoch int32) bool { return r.unproven > epoch }

// isOf fails if the partition is of another topic than the one that is meant; zero: any.
func (p *partition) isOf(topic metadata.ID) error {
	if topic != p.topic && topic != (metadata.ID{}) {
		return fmt.Errorf("%w: %s", ErrInconsistentTopicID, p.topic)
	}
	return nil
}

// since fails if this broker does not lead the partition any more, or not in the same epoch as when
// then was its role.
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

// serves fails if this broker does not serve consumers any more as it did when then was its role:
// as leader in the same epoch, or as follower.
func (p *partition) serves(then *role) error {
	now := p.role.Load()
	if now.refusal != then.refusal || now.epoch != then.epoch { //nolint:errorlint // the very same
		if now.refusal != nil {
			return now.refusal
		}
		return fmt.Errorf("%w in epoch %d any more", ErrNotLeader, then.epoch)
	}
	return nil
}

// advance moves the high watermark as far as the in-sync replicas vouch for the log. Of a partition
// that another broker leads it is the leader who says.
func (p *partition) advance() {
	if r := p.role.Load(); r.reign != nil {
		r.reign.advance(time.Now())
	}
}

// comparePartitions orders by topic and index.
func comparePartitions(a, b PartitionID) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

// State is a partition replica as metrics and reports show it.
type State struct {
	ID              PartitionID
	Log             *logstore.Log // nil when it could not be opened
	Leader          bool
	LeaderEpoch     int32
	UnderReplicated bool // as its leader knows it: fewer in-sync replicas than replicas
	// as its leader knows it: fewer in-sync replicas than min.insync.replicas, so acks=all is
	// refused
	UnderMinISR bool
	Lags        map[int32]int64 // of a leader: how many offsets each follower is behind
	// why this broker cannot serve or follow as it should; nil: nothing
	Fault error
}

// States returns the state of every partition here, sorted by topic and index.
func (s *Set) States() []State {
	partitions := s.view.Load().partitions
	states := make([]State, 0, len(partitions))
	for _, p := range partitions {
		states = append(states, p.state())
	}
	slices.SortFunc(states, func(a, b State) int { return comparePartitions(a.ID, b.ID) })
	return states
}

// state puts log and role together. That another broker leads is no fault.
func (p *partition) state() State {
	r := p.role.Load()
	state := State{ID: p.id, Log: p.log, Leader: r.refusal == nil, LeaderEpoch: r.epoch}
	if state.Leader {
		inSync := r.reign.inSync()
		state.UnderReplicated, state.UnderMinISR = inSync < len(r.replicas), inSync < r.minISR
		state.Lags = r.reign.lags()
	}
	switch {
	case p.log != nil && p.log.Fault() != nil:
		// appends are refused by the log itself; reads go on as long as they can
		state.Fault = p.log.Fault()
	case r.refusal != ErrNotLeader: //nolint:errorlint // exactly this value is the refusal of a broker that should not lead
		state.Fault = r.refusal
	case p.stuck.Load() != nil:
		state.Fault = *p.stuck.Load()
	}
	return state
}
