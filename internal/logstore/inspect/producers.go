package inspect

import (
	"math"
)

const (
	// sequenceUnknown is that of a producer of whom only a marker was seen: where its sequence
	// stands is not known.
	sequenceUnknown = -2
	// sequenceNone is that of an epoch without a batch: the next one is 0.
	sequenceNone = -1
	noOffset     = -1
)

// producer is what the batches so far tell of one producer id.
type producer struct {
	epoch       int16
	sequence    int32 // last one, or one of the constants
	lastOffset  int64 // of its last batch in this epoch, noOffset if none was seen
	delta       int32 // last offset of that batch minus its first
	missing     int64 // directory.missing at its last batch
	coordinator int32 // epoch of the coordinator that wrote its last marker, -1: none was seen
	open        int64 // first offset seen of its open transaction, noOffset: none
}

// passProducer holds a batch against the rules of idempotent and transactional producers (KIP-98,
// KIP-890), as far as a log can tell that has been cleaned: what came of a batch that is gone is
// not known, but it took its offsets along.
//
//   - epochs never fall;
//   - the sequence goes on, or begins at 0 with a new epoch; where it leaps, at least as many
//     offsets are missing;
//   - a marker is one record without a sequence, of a coordinator that is no older than the one
//     before;
//   - within a transaction its producer writes nothing else.
func (d *directory) passProducer(f file, b batch) {
	id := b.ProducerID()
	if id < 0 {
		if b.Transactional() && !b.Control() {
			d.v.findAt(f, b, "part of a transaction, but of no producer")
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
		d.v.findAt(f, b, "the epoch of producer %d falls from %d to %d", id, known.epoch, epoch)
		return // who comes next is measured by the higher one
	case epoch > known.epoch:
		known.epoch, known.sequence, known.lastOffset, known.delta = epoch, sequenceNone, noOffset,
			0
	}
	if b.Control() {
		d.passMarker(f, b, known)
	} else {
		d.passData(f, b, known)
	}
	known.missing = d.missing
}

func (d *directory) passMarker(f file, b batch, known *producer) {
	if b.tooLarge {
		return // told of already
	}
	marker, ends, err := b.Marker()
	switch {
	case err != nil:
		d.v.findAt(f, b, "%v", err)
		return
	case !ends:
		return // emptied by cleaning, or of a type that says nothing of transactions
	case b.Count() != 1 || b.LastOffsetDelta() != 0 || !b.Transactional() || b.Codec() != 0 || b.BaseSequence() >= 0:
		d.v.findAt(
			f,
			b,
			"a marker has to be one record, uncompressed, transactional and without a sequence",
		)
	case marker.CoordinatorEpoch < known.coordinator:
		d.v.findAt(f, b, "the coordinator's epoch of producer %d falls from %d to %d",
			b.ProducerID(), known.coordinator, marker.CoordinatorEpoch)
	}
	known.coordinator = max(known.coordinator, marker.CoordinatorEpoch)
	known.open = noOffset
}

func (d *directory) passData(f file, b batch, known *producer) {
	first := b.BaseSequence()
	if first < 0 {
		d.v.findAt(f, b, "producer %d sends sequence %d", b.ProducerID(), first)
		return
	}
	gone := d.missing - known.missing
	if known.sequence != sequenceUnknown {
		want := int32(0)
		if known.sequence >= 0 && known.sequence < math.MaxInt32 {
			want = known.sequence + 1
		}
		// Sequences wrap from 2^31-1 to 0; one that falls is a leap of almost 2^31.
		if leap := int64(uint32(first-want) & math.MaxInt32); leap > gone {
			d.v.findAt(
				f,
				b,
				"producer %d, epoch %d: sequence %d, where %d is due and %d offsets are missing",
				b.ProducerID(),
				known.epoch,
				first,
				want,
				gone,
			)
		}
	}
	switch {
	case b.Transactional() && known.open == noOffset:
		known.open = b.BaseOffset()
	case !b.Transactional() && known.open != noOffset && gone == 0:
		d.v.findAt(
			f,
			b,
			"producer %d writes outside of its transaction, which is open since offset %d",
			b.ProducerID(),
			known.open,
		)
	}
	known.sequence, known.lastOffset, known.delta = b.LastSequence(), b.LastOffset(),
		b.LastOffsetDelta()
}
