package replica

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// AcksAll asks for an acknowledgement once every in-sync replica has the records.
const AcksAll int16 = -1

// ProducePartition is one partition's batch in a produce request.
type ProducePartition struct {
	ID    PartitionID
	Topic metadata.ID // zero: whatever topic has the name
	Batch []byte      // may be written into
}

// ProduceResult is the answer for one partition.
type ProduceResult struct {
	ID       PartitionID
	Appended logstore.Appended
	Err      error
}

// PendingProduce are the batches of a produce request behind their append. It holds nothing of
// their bytes.
type PendingProduce struct {
	set     *Set
	results []ProduceResult
	waits   []produceWait // for those that are not acknowledged yet
}

// Append appends each batch, for acks -1, 1 or 0. What came of it, Wait returns; the batches
// themselves are not needed any more.
func (s *Set) Append(acks int16, batches []ProducePartition) *PendingProduce {
	produced := &PendingProduce{set: s, results: make([]ProduceResult, len(batches))}
	for i, batch := range batches {
		result := &produced.results[i]
		result.ID = batch.ID
		p, r, err := s.append(acks, batch, result)
		if err != nil {
			result.Err = err
			continue
		}
		wait := produceWait{p, r, result, acks == AcksAll}
		if acks == AcksAll && !wait.over() || acks == 1 &&
			p.log.SafeEnd() <= result.Appended.LastOffset {
			produced.waits = append(produced.waits, wait)
		}
	}
	return produced
}

// Wait waits, with acks -1, in the purgatory until every batch is below its high watermark, or for
// timeout (ErrTimeout). With acks 1 it waits for this replica alone, which under durability Fsync
// has to sync first; with acks 0 for nothing. A log that stops meanwhile fails its batches with
// ErrStorage. The results are in the order of the batches. It is called once.
//
// An error after the append, ErrTimeout or a new leader, says that nobody knows whether the records
// will stay: a producer sends them again, and its sequence numbers keep them single.
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

// append appends one batch, and moves the high watermark as far as that allows.
func (s *Set) append(acks int16, batch ProducePartition, result *ProduceResult) (*partition, *role,
	error) {
	p, r, err := s.leader(batch.ID, -1)
	if err == nil {
		err = p.isOf(batch.Topic)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case acks == AcksAll && r.reign.inSync() < r.minISR:
		return nil, nil, ErrNotEnoughReplicas
	}
	result.Appended, err = p.log.Append(batch.Batch, time.Now())
	return p, r, s.appended(p, r, batch, result, err)
}

// appended does what is left once a batch is in the log, or says why it is not.
func (s *Set) appended(p *partition, r *role, batch ProducePartition, result *ProduceResult,
	err error) error {
	if errors.Is(err, logstore.ErrClosed) || errors.Is(err, logstore.ErrFollows) {
		return closedError(p, r)
	}
	if err != nil {
		return err
	}
	if !result.Appended.Duplicate {
		p.producedBytes.Add(float64(len(batch.Batch)))
		p.producedRecords.Add(float64(result.Appended.LastOffset - result.Appended.BaseOffset + 1))
	}
	if len(r.replicas) > 1 {
		s.notifyFollowers(batch.ID)
	}
	if r.reign.advance(time.Now()) {
		s.advanced(p, r)
	}
	return nil
}

// closedError explains a log that closed under a request: the partition went, or the broker stops.
// The client asks elsewhere.
func closedError(p *partition, then *role) error {
	if err := p.since(then); err != nil {
		return err
	}
	return ErrNotLeader
}

// delayedProduce is a produce request that waits for its high watermarks. Its results are written
// by whoever ends it, before done is closed; PendingProduce.Wait reads them after that.
type delayedProduce struct {
	waits []produceWait
	done  chan struct{}
}

// produceWait is an appended batch that is not acknowledged yet. The role was taken before the
// append: had it changed in between, the wait ends with an error, which is the safe side.
type produceWait struct {
	partition *partition
	role      *role // in which it was appended
	result    *ProduceResult
	all       bool // every in-sync replica has to vouch for it, else this one alone
}

// over tells whether the wait has ended, and leaves why it failed in the result. That the batch is
// safe counts first: a log that stopped later has lost nothing of it.
func (w produceWait) over() bool {
	log := w.partition.log
	safe := log.SafeEnd()
	if w.all {
		safe = log.HighWatermark()
	}
	w.result.Err = w.partition.since(w.role)
	if w.result.Err != nil {
		return true
	}
	// With fewer in sync than asked for the high watermark stands still, and one that is past the
	// batch is no answer either: the topic asks for so many copies, and they are not there any more
	// (Kafka: NOT_ENOUGH_REPLICAS_AFTER_APPEND).
	if w.all && w.role.reign.inSync() < w.role.minISR {
		w.result.Err = ErrNotEnoughReplicasAfterAppend
		return true
	}
	if safe <= w.result.Appended.LastOffset {
		w.result.Err = log.Fault()
		return w.result.Err != nil
	}
	return true
}

// TryComplete implements timer.Operation. What is settled leaves the list, so that a later look
// asks only for the rest.
func (d *delayedProduce) TryComplete() bool {
	open := d.waits[:0]
	for _, w := range d.waits {
		if !w.over() {
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
