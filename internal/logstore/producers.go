package logstore

import (
	"fmt"
	"math"
	"time"

	"heartwood.dev/heartwood/internal/record"
)

const (
	// producerBatchesMax is how many batches of a producer are remembered: clients keep at most five in flight, so a repeated
	// batch is one of the last five.
	producerBatchesMax = 5
	// producerExpiry is how long an idle producer is remembered: Kafka's default of producer.id.expiration.ms.
	producerExpiry = 24 * time.Hour
	// noSequence is the last sequence of an epoch without a batch. nextSequence of it is 0, with which every epoch begins.
	noSequence = -1
)

// producerBatch is what is remembered of one batch. It never changes once it is in a producer's list: place hands a pointer
// to one out of the lock.
type producerBatch struct {
	firstSequence, lastSequence int32
	lastOffset                  int64
	offsetDelta                 int32 // lastOffset - offsetDelta is the base offset
	timestamp                   int64 // ms, the batch's max timestamp
}

// producer is what a log knows of one producer id.
type producer struct {
	epoch            int16
	batches          []producerBatch // the last ones of this epoch, oldest first, at most producerBatchesMax
	lastSeen         int64           // ms; when the producer last wrote here, as well as we know
	coordinatorEpoch int32           // of its last transaction marker, -1: none
}

// lastSequence returns the last sequence of the epoch, noSequence if it has none yet.
func (p *producer) lastSequence() int32 {
	if len(p.batches) == 0 {
		return noSequence
	}
	return p.batches[len(p.batches)-1].lastSequence
}

// producers is a log's producer state: what makes a produce that is sent twice be appended once (KIP-98). It follows the
// batches in the log and nothing else, so that it can be made anew by reading them.
type producers map[int64]*producer

// check tells what the rules say of a batch that is about to be appended: a duplicate (the batch that is there already), an
// error, or neither. It changes nothing.
//
// Kafka's rules (KIP-98, ProducerAppendInfo): an earlier epoch is fenced; a new epoch begins at 0; a batch whose first and
// last sequence are those of a remembered one is a repeat; any other one has to follow the last without a gap.
func (ps producers) check(b record.Batch) (duplicate *producerBatch, err error) {
	id := b.ProducerID()
	if id < 0 {
		return nil, nil
	}
	known := ps[id]
	if known == nil {
		// All of the producer's batches may have been deleted or expired: any sequence has to be accepted.
		return nil, nil
	}
	epoch, first := b.ProducerEpoch(), b.BaseSequence()
	switch {
	case epoch < known.epoch:
		return nil, fmt.Errorf("%w: producer %d has epoch %d, the batch %d", ErrInvalidProducerEpoch, id, known.epoch, epoch)
	case epoch > known.epoch:
		if first != 0 {
			return nil, fmt.Errorf("%w: producer %d begins epoch %d with sequence %d, not 0", ErrOutOfOrderSequence, id, epoch, first)
		}
		return nil, nil
	}
	for i := range known.batches {
		if known.batches[i].firstSequence == first && known.batches[i].lastSequence == b.LastSequence() {
			return &known.batches[i], nil
		}
	}
	if last := known.lastSequence(); first != nextSequence(last) {
		return nil, fmt.Errorf("%w: producer %d sent sequence %d after %d", ErrOutOfOrderSequence, id, first, last)
	}
	return nil, nil
}

// nextSequence returns the sequence after last; they wrap from 2^31-1 to 0.
func nextSequence(last int32) int32 {
	if last == math.MaxInt32 {
		return 0
	}
	return last + 1
}

// update takes in a batch that is in the log. It does not judge: what is in the log is what happened.
func (ps producers) update(b record.Batch, seen time.Time) {
	id := b.ProducerID()
	if id < 0 {
		return
	}
	known := ps[id]
	if known == nil {
		known = &producer{epoch: b.ProducerEpoch(), coordinatorEpoch: -1}
		ps[id] = known
	}
	if epoch := b.ProducerEpoch(); epoch != known.epoch {
		known.epoch = epoch
		known.batches = nil
	}
	known.lastSeen = seen.UnixMilli()
	if b.Control() {
		return // a marker has no sequence; that it bumps the epoch is all that counts
	}
	if len(known.batches) == producerBatchesMax {
		// Into a new array: a shift would overwrite the batch that an answer to a duplicate may be reading.
		known.batches = append(known.batches[:0:0], known.batches[1:]...)
	}
	known.batches = append(known.batches, producerBatch{
		firstSequence: b.BaseSequence(),
		lastSequence:  b.LastSequence(),
		lastOffset:    b.LastOffset(),
		offsetDelta:   b.LastOffsetDelta(),
		timestamp:     b.MaxTimestamp(),
	})
}

// expire forgets producers that have been idle for producerExpiry.
func (ps producers) expire(now time.Time) {
	for id, p := range ps {
		if now.UnixMilli()-p.lastSeen >= producerExpiry.Milliseconds() {
			delete(ps, id)
		}
	}
}

// lastOffsets returns each producer's last data offset: the batches that cleaning keeps, empty if need be (reference I25).
// Producers that have only a marker are left out.
func (ps producers) lastOffsets() map[int64]int64 {
	offsets := make(map[int64]int64, len(ps))
	for id, p := range ps {
		if len(p.batches) > 0 {
			offsets[id] = p.batches[len(p.batches)-1].lastOffset
		}
	}
	return offsets
}
