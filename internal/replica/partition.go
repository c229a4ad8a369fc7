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

// partition is one partition replica on this broker. It consists of a log and a role.
type partition struct {
	id    PartitionID
	topic metadata.ID
	log   *logstore.Log // nil if the log could not be opened
	// epochAtOpen is the latest leader epoch that the log contained when it was opened; -1 if it
	// contained none.
	epochAtOpen int32
	// source is the broker from whose log this log is copied, while the copy is incomplete. It is
	// metadata.NoBroker if the log is complete or empty. Guarded by changing.
	source int32
	// incarnation is the replica incarnation id for which the log was created. It is "" if the log is
	// new and has no incarnation yet. Guarded by changing.
	incarnation string
	// recordedAs is the replica incarnation id that the log got when the metadata store recorded its
	// loss before the first image. It is "" if no loss was recorded then, or once stampLoss has used
	// it. Guarded by changing.
	recordedAs string
	// gapEpoch is the leader epoch in which the log last received records that follow an offset gap.
	// It is -1 if the log has received no such records since this broker was last in sync. The records
	// in the gap, which cleaning has removed from the leader's log, may have been superseded by
	// records that this log has not received yet. Guarded by changing.
	gapEpoch int32
	// gapNewerThanImage is set if the log receives records that follow a gap while the image shows
	// this broker in sync, because the image is then older than the gap. The first image that shows
	// this broker out of sync clears gapNewerThanImage. Guarded by changing.
	gapNewerThanImage bool
	// applied is the partition in the image from which the current role was made, or the zero value if
	// the image was not applied completely. Only the applier uses it.
	applied assignedPartition
	role    atomic.Pointer[role] // never nil after Apply has returned
	// changing is held while the role changes, and while a fetcher applies a leader's response to
	// the log. So a response is never applied in a later leader epoch, or while this broker leads.
	changing sync.Mutex
	// foundLost is set if this broker, as the leader, has found that its log has lost records. It is
	// cleared when an image is applied.
	foundLost atomic.Bool
	// damaged is set if the log has damaged records that cannot be replaced (DeclareLost).
	damaged atomic.Bool
	// followFault is the error that prevents this broker from following the leader; nil if there is
	// none. State reports it.
	followFault atomic.Pointer[error]
	// refusedUntil is set when this broker stops leading (await_leader.go).
	refusedUntil deadline
	logger       *slog.Logger
	// produced is the number of bytes that were appended for producers since this broker started.
	produced atomic.Int64
	traffic
}

// checkTopic fails if the request contains a topic id and the partition belongs to a topic with
// another id. A zero id means that the request contains none.
func (p *partition) checkTopic(topic metadata.ID) error {
	if topic != p.topic && topic != (metadata.ID{}) {
		return fmt.Errorf("%w: %s", ErrInconsistentTopicID, p.topic)
	}
	return nil
}

// checkStillLeads fails if this broker no longer leads the partition in the leader epoch of the
// given role.
func (p *partition) checkStillLeads(then *role) error {
	now := p.role.Load()
	if now.refusal != nil {
		return now.refusal
	}
	if now.epoch != then.epoch {
		return fmt.Errorf("%w in epoch %d", ErrNotLeader, then.epoch)
	}
	return nil
}

// checkStillServes fails if this broker no longer serves consumers as in the given role: in the
// same leader epoch, and still as leader or still as follower.
func (p *partition) checkStillServes(then *role) error {
	now := p.role.Load()
	//nolint:errorlint // compares identity
	if now.refusal != then.refusal || now.epoch != then.epoch {
		if now.refusal != nil {
			return now.refusal
		}
		return fmt.Errorf("%w in epoch %d", ErrNotLeader, then.epoch)
	}
	return nil
}

// advance advances the high watermark if this broker leads the partition. A follower receives its
// high watermark from its leader.
func (p *partition) advance() {
	if r := p.role.Load(); r.leaderState != nil {
		r.leaderState.advance(time.Now())
	}
}

// comparePartitions orders partitions by topic and index.
func comparePartitions(a, b PartitionID) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

// State describes a partition replica, for metrics and reports.
type State struct {
	ID          PartitionID
	Log         *logstore.Log // nil if the log could not be opened
	Leader      bool          // true if this broker leads and serves the partition
	LeaderEpoch int32
	// UnderReplicated is set if a replica is not in the recorded ISR. Replicas that the current
	// reassignment adds do not count (KIP-352). Only the leader sets it.
	UnderReplicated bool
	// UnderMinISR is set if the recorded ISR is smaller than min.insync.replicas, so that the leader
	// rejects requests with acks=all. Only the leader sets it.
	UnderMinISR bool
	// Lags contains, for each follower, the number of offsets by which it is behind the leader. Only
	// the leader sets it.
	Lags map[int32]int64
	// ProducedBytes is the number of bytes that were appended for producers since this broker
	// started.
	ProducedBytes int64
	// Fault is the error that prevents this broker from serving or following the partition; nil if
	// there is none.
	Fault error
}

// States returns the states of all partition replicas on this broker, sorted by topic and index.
func (s *Set) States() []State {
	partitions := s.view.Load().partitions
	states := make([]State, 0, len(partitions))
	for _, p := range partitions {
		states = append(states, p.state())
	}
	slices.SortFunc(states, func(a, b State) int { return comparePartitions(a.ID, b.ID) })
	return states
}

// stopped reports whether the log has stopped or could not be opened.
func (p *partition) stopped() bool { return p.log == nil || p.log.Fault() != nil }

func (p *partition) state() State {
	r := p.role.Load()
	state := State{ID: p.id, Log: p.log, Leader: r.refusal == nil, LeaderEpoch: r.epoch,
		ProducedBytes: p.produced.Load()}
	if state.Leader {
		recorded := r.leaderState.recordedISR()
		state.UnderReplicated = slices.ContainsFunc(r.replicas, func(id int32) bool {
			return !slices.Contains(recorded, id) && !slices.Contains(r.adding, id)
		})
		state.UnderMinISR = len(recorded) < r.minISR
		state.Lags = r.leaderState.lags()
	}
	switch {
	case p.log != nil && p.log.Fault() != nil:
		// The log itself rejects appends. Reads are served as long as they succeed.
		state.Fault = p.log.Fault()
	case r.refusal != ErrNotLeader: //nolint:errorlint // ErrNotLeader without a wrapper is no fault
		state.Fault = r.refusal
	case p.followFault.Load() != nil:
		state.Fault = *p.followFault.Load()
	}
	return state
}
