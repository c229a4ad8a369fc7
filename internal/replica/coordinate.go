package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

// A coordinator stores its state in a partition that this broker leads. The records that the
// coordinator writes depend on the records that it has read from the partition. So it must append
// in the leader epoch in which it has read: see AppendIn. The coordinator's responses to clients
// may depend only on records below the high watermark: see Await.

// AppendIn appends a coordinator's batch like a produce with acks=-1, but only in the given leader
// epoch. It returns the offset of the batch's last record. It does not wait for the followers:
// Await does. If AppendIn fails, it has notified no follower or consumer of the batch.
//
// AppendIn holds the partition's changing lock during the append. Otherwise a broker that loses and
// regains the leadership meanwhile could append, in the new leader epoch, a batch that was computed
// in the old one.
func (s *Set) AppendIn(epoch int32, batch ProducePartition) (last int64, err error) {
	p, r, err := s.leader(batch.ID, epoch)
	if err == nil {
		err = p.checkTopic(batch.Topic)
	}
	if err != nil {
		return -1, err
	}
	var result ProduceResult
	if result.Appended, err = p.appendInRole(r, batch.Batch); err == nil ||
		!errors.Is(err, ErrNotLeader) {
		err = s.afterAppend(p, r, batch, &result, err)
	}
	if err != nil {
		return -1, err
	}
	return result.Appended.LastOffset, nil
}

// appendInRole appends a batch if the partition still has the role in parameter then.
func (p *partition) appendInRole(then *role, batch []byte) (logstore.Appended, error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if err := p.checkStillLeads(then); err != nil {
		return logstore.Appended{}, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if then.leaderState.isrSize() < then.minISR {
		return logstore.Appended{}, ErrNotEnoughReplicas
	}
	return p.log.Append(batch, time.Now())
}

// Await waits, for at most timeout, until the record at an offset is below the high watermark. It
// fails if this broker does not lead in the given leader epoch, or stops leading in it. Its errors
// are those of a produce with acks=-1. It returns at once for an offset below 0.
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
