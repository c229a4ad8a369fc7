package clean

import (
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// emptyBatchBytes is the size of a batch without records: its header
// (docs/internals/format/batch.md).
const emptyBatchBytes = 61

// batchAction is what a rewrite does with a batch.
type batchAction uint8

const (
	// copyBatch copies the batch byte for byte. This costs less than decoding the batch, and does
	// not change its encoding.
	copyBatch batchAction = iota
	// rebuildBatch writes the batch without its dead records.
	rebuildBatch
	// emptyBatch writes only the header of the batch, because its producer state or its last offset
	// must remain (I25, I29).
	emptyBatch
	// dropBatch writes nothing. Readers skip the gap in the offsets (I43).
	dropBatch
)

// batchPolicy decides what a rewrite does with a batch. Once the dead records of the segment are
// known, the decision is always the same, so the cost that a pass measures is the cost of the
// rewrite.
type batchPolicy struct {
	bound     int64
	producers map[int64]Producer
}

// removableEnd returns the end of the range of a batch's ordinals in which a pass may remove
// records although no record has superseded them: tombstones, markers, and records without a key.
// The range excludes the last record below the bound, which may be the last record of the log
// (I29). A consumer that waits for the record before the log end would wait until another record is
// appended, and some clients repeatedly request a batch without records. A later pass with a higher
// bound may remove the record.
//
// Records of aborted transactions and records below the log start are removed nevertheless. They do
// not end the log: a marker follows, or the log has no further record.
func (p batchPolicy) removableEnd(b keys.Batch) uint32 {
	end := b.FirstOrdinal + uint32(b.Records)
	if b.LastOffset+1 == p.bound && b.Records > 0 {
		end--
	}
	return end
}

// required reports whether a batch must remain although all its records are removed. There are
// three kinds of such batches:
//
//   - the last data batch of an active producer, which contains the producer's latest sequence
//     numbers (I25). The batch is identified by its offset (I27).
//   - the markers of an active producer without a data batch in the log (I25).
//   - the batch that ends at the bound. Without it, a recovery could not find the log end offset if
//     no batch follows. Its last record also remains (removableEnd), unless that record was aborted
//     or is below the log start (I29).
func (p batchPolicy) required(b keys.Batch) bool {
	if b.LastOffset+1 == p.bound {
		return true
	}
	producer, active := p.producers[b.ProducerID]
	switch {
	case !active || b.ProducerID < 0:
		return false
	case b.Marker != keys.NoMarker:
		return producer.LastOffset < 0 && producer.Epoch == b.ProducerEpoch
	}
	return producer.LastOffset == b.LastOffset
}

// expires returns the time from which a batch no longer has to remain, because its producer
// expires. If the batch does not remain because of its producer, ok is false.
func (p batchPolicy) expires(b keys.Batch) (moment time.Time, ok bool) {
	if b.LastOffset+1 == p.bound || !p.required(b) {
		return time.Time{}, false
	}
	moment = p.producers[b.ProducerID].ExpiresAt
	return moment, !moment.IsZero()
}

// action returns what a rewrite does with a batch, and the batch's number of dead records.
func (p batchPolicy) action(plan *plan, b keys.Batch) (batchAction, int) {
	required := p.required(b)
	if b.Opaque {
		return copyBatch, 0
	}
	if b.Records == 0 {
		if required {
			return copyBatch, 0
		}
		return dropBatch, 0 // I28
	}
	dead := plan.dead.count(b.FirstOrdinal, b.FirstOrdinal+uint32(b.Records))
	switch {
	case dead == 0:
		return copyBatch, 0
	case dead < b.Records:
		return rebuildBatch, dead
	case required:
		return emptyBatch, dead
	}
	return dropBatch, dead
}
