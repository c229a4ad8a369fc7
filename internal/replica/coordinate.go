package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

// A coordinator stores its state in a partition that this broker leads. Its records depend on the
// records that it has read there, so it must append in the leader epoch of the read. Its responses
// to clients may only depend on records below the high watermark. AppendIn and Await provide the
// two.

// AppendIn appends a coordinator's batch like a produce with acks=-1, but only in one leader epoch,
// and returns the offset of its last record. It does not wait for the followers: Await does. After
// an error no follower or consumer was notified of an appended record.
//
// It holds the partition's changing lock, so that a broker that loses the leadership and regains it
// meanwhile cannot append in the new leader epoch what was computed in the old one.
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

// appendInRole appends if the role has not changed.
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

// Await waits, up to timeout, until the record at an offset is below the high watermark, in one
// leader epoch of this broker. Its errors are those of a produce with acks=-1. It returns at once
// for an offset below 0.
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
