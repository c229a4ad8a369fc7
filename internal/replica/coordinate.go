package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

// A coordinator stores its state in a partition that this broker leads. The records that it writes
// depend on the records that it has read from the partition. So it must append in the same leader
// epoch in which it has read: see AppendIn. Its responses to clients may depend only on records
// below the high watermark: see Await.

// AppendIn appends a coordinator's batch like a produce request with acks=-1, but only in the given
// leader epoch. It returns the offset of the batch's last record. It does not wait for the
// followers; Await does. If AppendIn fails, no follower or consumer was notified of the batch.
//
// AppendIn holds the partition's changing lock during the append. Otherwise a broker that loses and
// regains the leadership in between could append a batch in the new leader epoch that was computed
// in the old one.
func (s *Set) AppendIn(epoch int32, batch ProducePartition) (last int64, err error) {
	return s.AppendVerifiedIn(epoch, batch, logstore.Verified{})
}

// AppendVerifiedIn is like AppendIn, for a batch that a coordinator appends in a producer's
// transaction. VerifyIn returns the value for the parameter verified.
func (s *Set) AppendVerifiedIn(epoch int32, batch ProducePartition,
	verified logstore.Verified) (last int64, err error) {
	p, r, err := s.leader(batch.ID, epoch)
	if err == nil {
		err = p.checkTopic(batch.Topic)
	}
	if err != nil {
		return -1, err
	}
	var result ProduceResult
	if result.Appended, err = p.inRole(r,
		func() (logstore.Appended, error) {
			return p.log.AppendVerified(batch.Batch, verified, time.Now())
		}); err == nil ||
		!errors.Is(err, ErrNotLeader) {
		err = s.afterAppend(p, r, batch, &result, err)
	}
	if err != nil {
		return -1, err
	}
	return result.Appended.LastOffset, nil
}

// VerifyIn asks the transaction coordinator whether a producer's transaction includes a
// coordinator's partition, which this broker leads in the given leader epoch. If the log already
// contains records of the transaction, VerifyIn does not ask.
func (s *Set) VerifyIn(ctx context.Context, epoch int32, q Verification) (logstore.Verified,
	error) {
	verified := logstore.Verified{Transaction: true, EpochBump: q.Add, Unsequenced: true}
	p, r, err := s.leader(q.Partitions[0], epoch)
	if err != nil {
		return logstore.Verified{}, err
	}
	var needed bool
	needed, verified.Guard, err = p.log.NeedsVerification(q.ProducerID, q.ProducerEpoch)
	switch {
	case errors.Is(err, logstore.ErrClosed) || errors.Is(err, logstore.ErrFollows):
		return logstore.Verified{}, closedError(p, r)
	case err != nil || !needed:
		return verified, err
	}
	one := questions{all: []question{{Verification: q}}}
	s.ask(ctx, one)
	return verified, one.all[0].errs[0]
}

// AppendMarkerIn appends a transaction marker to a coordinator's partition, as AppendMarkers does,
// but only in the given leader epoch, in which the coordinator has read the partition. It does not
// wait for the followers.
func (s *Set) AppendMarkerIn(epoch int32, m Marker) (logstore.Appended, error) {
	p, r, err := s.leader(m.ID, epoch)
	if err != nil {
		return logstore.Appended{}, err
	}
	appended, err := p.inRole(r, func() (logstore.Appended, error) {
		return p.log.AppendControl(m.End, time.Now())
	})
	switch {
	case errors.Is(err, logstore.ErrClosed) || errors.Is(err, logstore.ErrFollows):
		return logstore.Appended{}, closedError(p, r)
	case err == nil:
		s.appended(p, r)
	}
	return appended, err
}

// inRole calls appendTo if the partition still has the given role, and enough replicas are in sync.
func (p *partition) inRole(then *role,
	appendTo func() (logstore.Appended, error)) (logstore.Appended, error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if err := p.checkStillLeads(then); err != nil {
		return logstore.Appended{}, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if then.leaderState.isrSize() < then.minISR {
		return logstore.Appended{}, ErrNotEnoughReplicas
	}
	return appendTo()
}

// Await waits until the record at an offset is below the high watermark, for at most timeout. It
// fails if this broker does not lead in the given leader epoch, or stops leading in it. Its errors
// are the same as for a produce request with acks=-1. For an offset below 0, it returns at once.
func (s *Set) Await(ctx context.Context, id PartitionID, epoch int32, offset int64,
	timeout time.Duration) error {
	p, r, err := s.leader(id, epoch)
	if err != nil || offset < p.log.HighWatermark() {
		return err
	}
	result := ProduceResult{ID: id, Appended: logstore.Appended{LastOffset: offset}}
	pending := PendingProduce{set: s, results: []ProduceResult{result}}
	pending.waits = []produceWait{{p, r, &pending.results[0], true}}
	return pending.Wait(ctx, timeout)[0].Err
}
