package replica

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// AcksAll requests an acknowledgement after every in-sync replica has the records.
const AcksAll int16 = -1

// ProducePartition is one partition's batch in a produce request.
type ProducePartition struct {
	ID    PartitionID
	Topic metadata.ID // topic id; zero if the request contains none
	Batch []byte      // bytes of the batch, which Append may modify
}

// ProduceResult is the result for one partition.
type ProduceResult struct {
	ID       PartitionID
	Appended logstore.Appended
	Err      error
}

// PendingProduce is a produce request whose batches have been appended. It does not reference the
// bytes of the batches.
type PendingProduce struct {
	set     *Set
	results []ProduceResult
	waits   []produceWait // waits for the batches that are not acknowledged yet
}

// Append appends each batch. acks is -1, 1 or 0. PendingProduce.Wait returns the results. The
// caller may reuse the batches as soon as Append has returned.
func (s *Set) Append(acks int16, batches []ProducePartition) *PendingProduce {
	pending := &PendingProduce{set: s, results: make([]ProduceResult, len(batches))}
	for i, batch := range batches {
		pending.results[i].ID = batch.ID
		s.appendOne(acks, batch, logstore.Verified{}, pending, i)
	}
	return pending
}

// appendOne appends one batch, and stores its result, or a wait for it, in pending. index is the
// index of the batch's result.
func (s *Set) appendOne(acks int16, batch ProducePartition, verified logstore.Verified,
	pending *PendingProduce, index int) {
	result := &pending.results[index]
	p, r, err := s.append(acks, batch, verified, result)
	switch {
	case err != nil:
		result.Err = err
	case acks == AcksAll:
		pending.await(p, r, result)
	case acks == 1 && p.log.DurableEnd() <= result.Appended.LastOffset:
		pending.waits = append(pending.waits, produceWait{p, r, result, false})
	}
}

// await makes Wait wait until the batch of the given result is below the high watermark.
func (p *PendingProduce) await(candidate *partition, r *role, result *ProduceResult) {
	if wait := (produceWait{candidate, r, result, true}); !wait.isOver() {
		p.waits = append(p.waits, wait)
	}
}

// Wait waits in the purgatory, and returns the results in the order of the batches. It must be
// called only once. With acks=-1 it waits until every batch is below the high watermark, and fails
// with ErrTimeout after timeout. With acks=1 it waits only under durability Fsync, for the sync of
// this replica's log. With acks=0 it does not wait. If a log fails during the wait, the result of
// its batch is ErrStorage.
//
// Some errors occur after the append, such as ErrTimeout or the error after a change of leader.
// After such an error it is unknown whether the records will remain. The producer retries, and its
// sequence numbers prevent duplicates.
func (p *PendingProduce) Wait(ctx context.Context, timeout time.Duration) []ProduceResult {
	if len(p.waits) == 0 {
		return p.results
	}
	keys := make([]PartitionID, len(p.waits))
	for i := range p.waits {
		keys[i] = p.waits[i].result.ID
	}
	op := &delayedProduce{waits: p.waits, done: make(chan struct{})}
	wait(ctx, p.set.produces.Wait(op, timeout, keys...), nil, op.done)
	return p.results
}

// append appends one batch and advances the high watermark.
func (s *Set) append(acks int16, batch ProducePartition, verified logstore.Verified,
	result *ProduceResult) (*partition, *role, error) {
	p, r, err := s.leader(batch.ID, -1)
	if err == nil {
		err = p.checkTopic(batch.Topic)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case acks == AcksAll && r.leaderState.isrSize() < r.minISR:
		return nil, nil, ErrNotEnoughReplicas
	}
	result.Appended, err = p.log.AppendProduced(batch.Batch, verified, time.Now())
	return p, r, s.afterAppend(p, r, batch, result, err)
}

// afterAppend completes the append of a batch: it updates the metrics, wakes the followers and
// advances the high watermark. err is the error of the append, which afterAppend translates for the
// producer.
func (s *Set) afterAppend(p *partition, r *role, batch ProducePartition, result *ProduceResult,
	err error) error {
	if errors.Is(err, logstore.ErrClosed) || errors.Is(err, logstore.ErrFollows) {
		return closedError(p, r)
	}
	if err != nil {
		return err
	}
	if !result.Appended.Duplicate {
		p.produced.Add(int64(len(batch.Batch)))
		p.producedBytes.Add(float64(len(batch.Batch)))
		p.producedRecords.Add(float64(result.Appended.LastOffset - result.Appended.BaseOffset + 1))
	}
	s.appended(p, r)
	return nil
}

// appended wakes the followers after an append, and advances the high watermark.
func (s *Set) appended(p *partition, r *role) {
	if len(r.replicas) > 1 {
		s.notifyFollowers(p.id)
	}
	if r.leaderState.advance(time.Now()) {
		s.highWatermarkAdvanced(p, r)
	}
}

// closedError returns the error for a request whose log was closed during the request, because the
// partition was removed from this broker, or the broker is stopping. The error makes the client
// look for another leader.
func closedError(p *partition, then *role) error {
	if err := p.checkStillLeads(then); err != nil {
		return err
	}
	return ErrNotLeader
}

// delayedProduce is a produce request that waits for high watermarks. It writes its results before
// it closes done, and PendingProduce.Wait then reads them.
type delayedProduce struct {
	waits []produceWait
	done  chan struct{}
}

// produceWait is the wait for an appended batch that is not acknowledged yet. The role was loaded
// before the append. If the role changed between the load and the append, the wait ends with an
// error, which is safe.
type produceWait struct {
	partition *partition
	role      *role
	result    *ProduceResult
	all       bool // true if the batch waits for the high watermark, and not only for this replica
}

// isOver reports whether the wait for a batch has ended. If it ended with an error, isOver stores
// the error in the result. A batch that is acknowledged succeeds even if the log has failed since.
func (w produceWait) isOver() bool {
	log := w.partition.log
	acknowledged := log.DurableEnd()
	if w.all {
		acknowledged = log.HighWatermark()
	}
	w.result.Err = w.partition.checkStillLeads(w.role)
	if w.result.Err != nil {
		return true
	}
	// While too few replicas are in sync, the high watermark does not advance. Even a batch below the
	// high watermark is not acknowledged in this state, because the topic requires more copies than
	// now exist (Kafka: NOT_ENOUGH_REPLICAS_AFTER_APPEND).
	if w.all && w.role.leaderState.isrSize() < w.role.minISR {
		w.result.Err = ErrNotEnoughReplicasAfterAppend
		return true
	}
	if acknowledged <= w.result.Appended.LastOffset {
		w.result.Err = log.Fault()
		return w.result.Err != nil
	}
	return true
}

// TryComplete implements timer.Operation. It removes the waits that have ended, so that the next
// call checks only the remaining ones.
func (d *delayedProduce) TryComplete() bool {
	open := d.waits[:0]
	for _, w := range d.waits {
		if !w.isOver() {
			open = append(open, w)
		}
	}
	d.waits = open
	if len(open) > 0 {
		return false
	}
	close(d.done)
	return true
}

// Expire implements timer.Operation.
func (d *delayedProduce) Expire() {
	for _, w := range d.waits {
		w.result.Err = ErrTimeout
	}
	close(d.done)
}
