package inspect

import (
	"math"
)

const (
	// sequenceUnknown is the last sequence number of a producer for which only markers were read.
	sequenceUnknown = -2
	// sequenceNone is the last sequence number in an epoch without a batch. The next sequence
	// number is 0.
	sequenceNone = -1
	noOffset     = -1
)

// producer is the state of one producer id, computed from the batches read so far.
type producer struct {
	epoch    int16
	sequence int32 // last sequence number, sequenceUnknown or sequenceNone
	// lastOffset is the last offset of the producer's last batch in this epoch, or noOffset if
	// there is no such batch.
	lastOffset  int64
	delta       int32 // last offset of the producer's last batch minus its base offset
	missing     int64 // value of directory.missing at the producer's last batch
	coordinator int32 // coordinator epoch in the producer's last marker; -1 if there is none
	// open is the first known offset of the producer's open transaction, or noOffset if there is
	// none.
	open int64
}

// addProducer checks a batch against the rules of idempotent and transactional producers (KIP-98,
// KIP-890). It checks only what a cleaned log permits, because a batch that cleaning has removed
// leaves nothing but a gap in the offsets.
//
//   - Producer epochs do not decrease.
//   - Sequence numbers are consecutive, and start at 0 in a new epoch. A gap is at most as large as
//     the number of missing offsets.
//   - A marker is one record without a sequence number. Its coordinator epoch is at least the
//     previous marker's coordinator epoch.
//   - While a producer has an open transaction, all its batches belong to the transaction.
func (d *directory) addProducer(f file, b batch) {
	id := b.ProducerID()
	if id < 0 {
		if b.Transactional() && !b.Control() {
			d.v.findAt(f, b, "transactional batch without a producer id")
		}
		return
	}
	known := d.producers[id]
	switch epoch := b.ProducerEpoch(); {
	case epoch < 0:
		d.v.findAt(f, b, "producer %d has epoch %d", id, epoch)
		return
	case known == nil:
		known = &producer{epoch: epoch, sequence: sequenceUnknown, lastOffset: noOffset,
			coordinator: -1, open: noOffset}
		d.producers[id] = known
	case epoch < known.epoch:
		d.v.findAt(f, b, "epoch of producer %d decreases from %d to %d", id, known.epoch, epoch)
		return // later batches are still compared with the higher epoch
	case epoch > known.epoch:
		known.epoch, known.sequence, known.lastOffset, known.delta = epoch, sequenceNone, noOffset,
			0
	}
	if b.Control() {
		d.addMarker(f, b, known)
	} else {
		d.addData(f, b, known)
	}
	known.missing = d.missing
}

func (d *directory) addMarker(f file, b batch, known *producer) {
	if b.tooLarge {
		return // checkBatch has already reported the batch as a problem
	}
	marker, ends, err := b.Marker()
	switch {
	case err != nil:
		d.v.findAt(f, b, "%v", err)
		return
	case !ends:
		return // cleaning has emptied the batch, or its type ends no transaction
	case b.Count() != 1 || b.LastOffsetDelta() != 0 || !b.Transactional() || b.Codec() != 0 ||
		b.BaseSequence() >= 0:
		d.v.findAt(f, b,
			"a marker must be one uncompressed transactional record without a sequence number")
	case marker.CoordinatorEpoch < known.coordinator:
		d.v.findAt(f, b, "coordinator epoch of producer %d decreases from %d to %d",
			b.ProducerID(), known.coordinator, marker.CoordinatorEpoch)
	}
	known.coordinator = max(known.coordinator, marker.CoordinatorEpoch)
	known.open = noOffset
}

func (d *directory) addData(f file, b batch, known *producer) {
	first := b.BaseSequence()
	if first < 0 {
		d.v.findAt(f, b, "producer %d has base sequence %d", b.ProducerID(), first)
		return
	}
	missing := d.missing - known.missing
	if known.sequence != sequenceUnknown {
		want := int32(0)
		if known.sequence >= 0 && known.sequence < math.MaxInt32 {
			want = known.sequence + 1
		}
		// Sequence numbers wrap from 2^31-1 to 0, so a decrease is a gap of almost 2^31.
		if gap := int64(uint32(first-want) & math.MaxInt32); gap > missing {
			d.v.findAt(f, b, "producer %d, epoch %d: sequence %d, want %d; %d offsets are missing",
				b.ProducerID(), known.epoch, first, want, missing)
		}
	}
	switch {
	case b.Transactional() && known.open == noOffset:
		known.open = b.BaseOffset()
	case !b.Transactional() && known.open != noOffset && missing == 0:
		d.v.findAt(f, b, "producer %d appends outside its transaction, open since offset %d",
			b.ProducerID(), known.open)
	}
	known.sequence, known.lastOffset, known.delta = b.LastSequence(), b.LastOffset(),
		b.LastOffsetDelta()
}
