package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

// A coordinator keeps its state in a partition that this broker leads: what it appends is made of
// what it has read there, so it must come to be in the very leader epoch it read in, and what it
// answers must be below the high watermark.

// AppendIn appends a batch of the partition's coordinator as acks -1 does, in one leader epoch
// only, and returns the offset of its last record. It does not wait for the followers: Await does.
// On an error nothing was appended that anybody was told of.
//
// It holds what changes of role hold, so that a broker that loses its leadership and gains it again
// meanwhile does not write in the new one what it worked out in the old.
func (s *Set) AppendIn(epoch int32, batch ProducePartition) (last int64, err error) {
	p, r, err := s.leader(batch.ID, epoch)
	if err == nil {
		err = p.isOf(batch.Topic)
	}
	if err != nil {
		return -1, err
	}
	var result ProduceResult
	if result.Appended, err = p.appendAs(r, batch.Batch); err == nil ||
		!errors.Is(err, ErrNotLeader) {
		err = s.appended(p, r, batch, &result, err)
	}
	if err != nil {
		return -1, err
	}
	return result.Appended.LastOffset, nil
}

// appendAs appends if the role is what it was.
func (p *partition) appendAs(then *role, batch []byte) (logstore.Appended, error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if err := p.since(then); err != nil {
		return logstore.Appended{}, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if then.reign.inSync() < then.minISR {
		return logstore.Appended{}, ErrNotEnoughReplicas
	}
	return p.log.Append(batch, time.Now())
}

// Await waits, at most for timeout, until the record at an offset is below the high watermark, in
// one leader epoch of this broker. The errors are those of a produce with acks -1. An offset below
// 0 is there already.
func (s *Set) Await(ctx context.Context, id PartitionID, epoch int32, offset int64,
	timeout time.Duration) error {
	p, r, err := s.leader(id, epoch)
	if err != nil || offset < p.log.HighWatermark() {
		return err
	}
	result := ProduceResult{ID: id, Appended: logstore.Appended{LastOffset: offset}}
	produced := PendingProduce{set: s, results: []ProduceResult{result}}
	produced.waits = []produceWait{{p, r, &produced.results[0], true}}
	return produced.Wait(ctx, timeout)[0].Err
}
