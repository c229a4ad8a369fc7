package clean

import (
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// emptyBatchBytes is the size of a batch without records: its header (docs/format/batch.md).
const emptyBatchBytes = 61

// batchAction is what a rewrite does with a batch.
type batchAction uint8

const (
	// copyBatch copies the batch byte for byte. That costs less than decoding it, and does not
	// change its encoding.
	copyBatch batchAction = iota
	// rebuildBatch writes the batch without its dead records.
	rebuildBatch
	// emptyBatch writes only the header of the batch, because its producer state or its last offset
	// must remain (I25, I29).
	emptyBatch
	// dropBatch writes nothing. Readers skip the gap in the offsets (I43).
	dropBatch
)

// batchPolicy decides what a rewrite does with a batch. The decision is the same every time once
// the dead records of the segment are known, so the cost that a pass measures is the cost of the
// rewrite.
type batchPolicy struct {
	bound     int64
	producers map[int64]Producer
}

// removableEnd returns the end of the ordinals of a batch whose records a pass may remove although
// nothing has superseded them: tombstones, markers, and records without a key. It excludes the last
// record below the bound, which may be the last record of the log (I29). A consumer that waits for
// the record before the log end would wait until another record is appended, and some clients
// request a batch without records again and again. A later pass, whose bound is higher, may remove
// the record.
//
// Records of aborted transactions and records below the log start are removed nevertheless. The log
// does not end with them: a marker follows, or the log has no further record.
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
//   - the last data batch of an active producer, which contains its latest sequence numbers (I25).
//     It is identified by its offset (I27).
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

// expires returns the time from which a batch need not remain any longer, because its producer
// expires; ok is false if the batch does not remain because of its producer.
func (p batchPolicy) expires(b keys.Batch) (moment time.Time, ok bool) {
	if b.LastOffset+1 == p.bound || !p.required(b) {
		return time.Time{}, false
	}
	moment = p.producers[b.ProducerID].ExpiresAt
	return moment, !moment.IsZero()
}

// action returns what a rewrite does with a batch, and the number of its dead records.
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
