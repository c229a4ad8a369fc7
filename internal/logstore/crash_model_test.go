package logstore

import (
	"slices"

	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// presence is the state of a partition's log as the store's caller sees it.
type presence int

const (
	absent           presence = iota // never created, or released and deleted
	present                          // created and not released
	releasedRetained                 // released, and its directory was retained
)

// partitionModel describes what a partition must contain and what it may contain: it is a list of
// everything that was ever appended, with which the crash test compares a log.
//
// When an operation begins, it extends what the partition may contain. When the operation has
// returned, only its result is accepted. A crash in between may leave either state. A clone of the
// model describes the moment at which it was created, whatever operations follow.
type partitionModel struct {
	id       PartitionID
	topic    TopicID
	settings topicconfig.Settings
	retain   bool
	where    presence
	next     presence // the other possible state, during an operation that changes where

	first   int64      // log start at the creation of the log
	batches []appended // every batch whose append has begun, including those below start
	// truncatedTo is the log end after the last truncation. It may be in a gap between two batches.
	truncatedTo int64
	// filled contains, in ascending order, the empty batches that truncations appended because they
	// ended in an offset gap (ADR 0100). After a crash the log may end at the end of any of these
	// batches. A truncation removes such a batch only as a whole.
	filled  []filledGap
	restart int64 // new log start while StartAt empties the log; none otherwise
	synced  int64 // offset below which all records were reported durable and must exist
	// start is the durable log start; startMax is the largest log start that retention may have
	// set. highWatermark and highWatermarkMax are the corresponding high watermarks.
	start, startMax                 int64
	highWatermark, highWatermarkMax int64
	epochs                          []leaderepoch.Entry
	// epochsSaved is the latest leader epoch that is certainly in the epoch file; -1 if none is. A
	// crash loses later epochs, except epochs of batches that survive the crash.
	epochsSaved int32
	wasFull     bool // true if the disk has been full since epochsSaved was set
	// epochsChanging is set while an operation adds or removes leader epochs. Meanwhile the log may
	// lack the last elements of epochs.
	epochsChanging bool
	cleanable      int64 // offset below which a pass may have removed superseded records
	// replicatedTo is the largest high watermark that a pass or a deletion of records has used. The
	// operation acted on the transaction markers and the producer state below that offset.
	replicatedTo int64
	// forgotten is the offset below which batches were deleted while the disk was full. If all
	// batches of a producer are below it, the log may not know the producer.
	forgotten int64
	// outdated is the log start after a crash that emptied the log. If the last batch of a producer
	// is below it, the log may know only earlier batches of the producer.
	outdated int64
}

// appended is a batch as its producer sent it, with the offset and the leader epoch that the log
// assigned.
type appended struct {
	base  int64
	epoch int32 // leader epoch
	sent  storetest.Batch
	wire  []byte // the encoded batch, as the producer sent it
	nulls bool   // all values are null: tombstones
	// marker is the transaction marker that the batch contains as its only record; nil for a data
	// batch.
	marker *EndTxn
}

func (a appended) last() int64 { return a.base + max(int64(len(a.sent.Keys)), 1) - 1 }

// inNextEpoch returns the batch with the next producer epoch and sequence number 0.
func (a appended) inNextEpoch() appended {
	a.sent.Epoch, a.sent.Sequence = a.sent.Epoch+1, 0
	a.wire = a.sent.Bytes(failTB{})
	return a
}

// none is an offset that is not set.
const none = -1

// end returns the log end after a crash that loses nothing.
func (p *partitionModel) end() int64 { return max(p.truncatedTo, p.dataEnd()) }

// dataEnd returns the offset after the last batch. If an offset gap follows the batch, a crash may
// lose the gap.
func (p *partitionModel) dataEnd() int64 {
	if len(p.batches) == 0 {
		return p.first
	}
	return p.batches[len(p.batches)-1].last() + 1
}

// reset changes the model to an empty log that begins at the given offset and has no producers or
// leader epochs.
func (p *partitionModel) reset(offset int64) {
	p.first, p.truncatedTo, p.batches, p.epochs, p.epochsChanging = offset, offset, nil, nil, false
	p.filled, p.epochsSaved = nil, -1
	p.synced, p.cleanable, p.start, p.startMax = offset, offset, offset, offset
	p.highWatermark, p.highWatermarkMax = offset, offset
	p.replicatedTo, p.forgotten, p.outdated = 0, 0, 0
}

// upTo returns the model of the same partition for a log that ends at the given offset.
func (p *partitionModel) upTo(end int64) *partitionModel {
	c := p.clone()
	c.batches = slices.DeleteFunc(slices.Clone(p.batches),
		func(b appended) bool { return b.last() >= end })
	return c
}

// since returns the model without the batches that are entirely below an offset.
func (p *partitionModel) since(start int64) *partitionModel {
	c := p.clone()
	c.batches = slices.DeleteFunc(slices.Clone(p.batches),
		func(b appended) bool { return b.last() < start })
	return c
}

// clone returns a copy of the model. The copies share their lists, because list elements never
// change, and an append to one copy does not change the other copy.
func (p *partitionModel) clone() *partitionModel {
	c := *p
	c.batches, c.epochs = slices.Clip(p.batches), slices.Clip(p.epochs)
	return &c
}

// filledGap is an empty batch that fills the offsets [from, to).
type filledGap struct{ from, to int64 }

// filledTo returns the empty batches in filled that remain if the log ends at the given offset.
func (p *partitionModel) filledTo(end int64) []filledGap {
	return slices.DeleteFunc(slices.Clone(p.filled), func(f filledGap) bool { return f.to > end })
}

// boundary reports whether the log may end at the given offset after a crash: at the first offset
// or the end of a batch, or where a truncation ended the log.
func (p *partitionModel) boundary(end int64) bool {
	return end == p.first || end == p.truncatedTo ||
		slices.ContainsFunc(p.filled, func(f filledGap) bool { return f.to == end }) ||
		slices.ContainsFunc(p.batches, func(b appended) bool { return b.last()+1 == end })
}

// emptied reports whether a log with the given start and end may have lost all its records in a
// crash. This happens if records were deleted up to the log start while the disk was full, because
// such a deletion does not wait until the records above the log start are synced. The start may be
// within a batch.
func (p *partitionModel) emptied(start, end int64) bool {
	return start == end && end <= p.forgotten
}

// latest returns each producer's last batch below an offset. It omits producers for which a marker
// with a later producer epoch follows that batch.
func (p *partitionModel) latest(end int64) map[int64]appended {
	latest := map[int64]appended{}
	for _, b := range p.batches {
		if b.base >= end {
			break
		}
		switch {
		case b.marker != nil && latest[b.marker.ProducerID].sent.Epoch != b.marker.ProducerEpoch:
			delete(latest, b.marker.ProducerID)
		case b.marker == nil && b.sent.Producer != 0:
			latest[b.sent.Producer] = b
		}
	}
	return latest
}

// leaderEpoch returns the latest leader epoch of a log with the given end. An epoch that started
// above the end is lost together with its records.
func (p *partitionModel) leaderEpoch(end int64) int32 {
	latest := int32(-1)
	for _, e := range p.epochs {
		if e.Start <= end {
			latest = max(latest, e.Epoch)
		}
	}
	return latest
}

// modelRecord is a record with the fields that must not change.
type modelRecord struct {
	offset    int64
	key       string
	value     string // "" if the value is null; the workload writes no empty values
	timestamp int64
	epoch     int32
}

// records lists the data records that were appended with offsets in [from, to). If committed is
// true, it omits the records of aborted transactions.
func (p *partitionModel) records(from, to int64, committed bool) (records []modelRecord) {
	aborted := p.transactions().aborted
	for _, b := range p.batches {
		if committed && aborted[b.base] {
			continue
		}
		for i, key := range b.sent.Keys {
			offset := b.base + int64(i)
			if offset < from || offset >= to {
				continue
			}
			value := b.sent.Value
			if b.nulls {
				value = ""
			}
			records = append(records,
				modelRecord{offset, key, value, b.sent.Timestamp.UnixMilli(), b.epoch})
		}
	}
	return records
}

// removable returns the offsets of the records that a pass may have removed: records below
// cleanable that are superseded, tombstones or part of an aborted transaction.
func (p *partitionModel) removable() map[int64]bool {
	may := map[int64]bool{}
	newest := map[string]int64{}
	for _, r := range p.records(0, p.cleanable, false) {
		may[r.offset] = true
	}
	for _, r := range p.records(0, p.cleanable, true) {
		newest[r.key] = r.offset
		may[r.offset] = r.value == ""
	}
	for _, r := range p.records(0, p.cleanable, true) {
		may[r.offset] = may[r.offset] || newest[r.key] != r.offset
	}
	return may
}

// missing compares the records that were read from [from, to) with the appended records, and
// returns the first contradiction, or "". Each record that was read must have been appended, each
// unread record must be removable, and the last value of each key must be the same.
func (p *partitionModel) missing(read []modelRecord, from, to int64, committed bool) string {
	final, got := map[string]modelRecord{}, map[string]string{}
	may := p.removable()
	aborted := p.abortedRecords()
	for _, r := range p.records(from, to, committed) {
		if !aborted[r.offset] {
			final[r.key] = r
		}
		if len(read) > 0 && read[0] == r {
			if !aborted[r.offset] {
				got[r.key] = r.value
			}
			read = read[1:]
			continue
		}
		switch {
		case len(read) > 0 && read[0].offset <= r.offset:
			return sprint("read %+v, appended was %+v", read[0], r)
		case !may[r.offset]:
			return sprint("%+v is missing: cleaned below %d", r, p.cleanable)
		}
	}
	if len(read) > 0 {
		return sprint("read %+v, which was not appended", read[0])
	}
	for key, r := range final {
		// If the range ends below cleanable, the record that supersedes this record may be above
		// the range.
		if got[key] != r.value && (to >= p.cleanable || !may[r.offset]) {
			return sprint("last value of key %s is %q, was %q", key, got[key], r.value)
		}
	}
	return ""
}
