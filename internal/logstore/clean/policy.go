package clean

import "heartwood.dev/heartwood/internal/logstore/keys"

// emptyBatchBytes is the size of a batch without records: its header (docs/format/batch.md).
const emptyBatchBytes = 61

// batchAction is what a rewrite does with a batch.
type batchAction uint8

const (
	// copyBatch copies the batch byte for byte, which costs less than decoding it and leaves the
	// producer's framing unchanged.
	copyBatch    batchAction = iota
	rebuildBatch             // without its dead records
	emptyBatch               // to its header, which contains state that must remain (I25, I29)
	dropBatch                // entirely; readers skip the gap in the offsets (I43)
)

// batchPolicy decides on batches. It decides on a batch the same way every time, once the dead
// records of its segment are known.
type batchPolicy struct {
	bound     int64
	producers map[int64]Producer
}

// required reports whether a batch must remain although all its records are removed: the last data
// batch of an active producer, for its sequence numbers (I25; identified by offset: I27), the
// markers of a producer that has nothing else, and the batch that ends at the bound, which makes
// the end of the log recoverable from the log (I29).
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
