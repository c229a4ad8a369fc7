package logstore

import (
	"slices"

	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// presence is the state of a partition's data from the point of view of a caller of the store.
type presence int

const (
	absent           presence = iota // never created, or released and deleted
	present                          // created and not released
	releasedRetained                 // released, and retained
)

// partitionModel is what a partition must contain, and what it may contain: the simple model of the
// crash test. It keeps everything that was ever appended in a list.
//
// Each operation first extends what may be (it has begun), and then reduces it to what must be (it
// has returned): a crash in between may leave either. A value of this type is a copy of everything
// that changes.
type partitionModel struct {
	id       PartitionID
	topic    TopicID
	settings topicconfig.Settings
	retain   bool
	where    presence
	next     presence // where it may be too, during an operation that moves it

	first   int64      // where the log began
	batches []appended // every batch whose append has begun, also those below start
	// truncatedTo is where the last truncation ended the log: maybe in a gap between two batches.
	truncatedTo int64
	// filled are the empty batches that truncations within a gap appended (ADR 0100), ascending: a
	// crash may end the log at any of them, and a truncation removes each as a whole.
	filled  []filledGap
	restart int64 // where the log is being started again; none otherwise
	synced  int64 // everything below was reported durable, and must be there
	// start is the durable log start, startMax the one that retention may have reached.
	// highWatermark and its maximum have the same meaning for the high watermark.
	start, startMax               int64
	highWatermark, highWatermarkM int64
	epochs                        []leaderepoch.Entry
	// epochs are being added or removed: the last ones may be unknown
	leading   bool
	cleanable int64 // below it a pass may have removed superseded records
	// replicatedTo is the offset up to which a pass or a deletion considered the log replicated: it
	// used the markers and the producer state as of there.
	replicatedTo int64
	// forgotten: producers that wrote only below it may be unknown, because their batches were
	// deleted while the disk was full.
	forgotten int64
}

// appended is a batch as it was sent, and its offset.
type appended struct {
	base  int64
	epoch int32 // of the leader
	sent  storetest.Batch
	wire  []byte // as sent
	nulls bool   // all values are null: tombstones
	// marker, if it is not nil, ends a transaction: the batch is one control record.
	marker *EndTxn
}

func (a appended) last() int64 { return a.base + max(int64(len(a.sent.Keys)), 1) - 1 }

// none is the value of an offset that is not set.
const none = -1

// end returns the log end if nothing is lost.
func (p *partitionModel) end() int64 { return max(p.truncatedTo, p.dataEnd()) }

// dataEnd returns the end of the last batch: a crash may lose a gap behind it.
func (p *partitionModel) dataEnd() int64 {
	if len(p.batches) == 0 {
		return p.first
	}
	return p.batches[len(p.batches)-1].last() + 1
}

// reset sets the partition to an empty log at an offset, without producers and leader epochs.
func (p *partitionModel) reset(offset int64) {
	p.first, p.truncatedTo, p.batches, p.epochs, p.leading = offset, offset, nil, nil, false
	p.filled = nil
	p.synced, p.cleanable, p.start, p.startMax, p.highWatermark, p.highWatermarkM = offset, offset,
		offset, offset, offset, offset
	p.replicatedTo, p.forgotten = 0, 0
}

// upTo returns the partition as it is when the log ends at an offset.
func (p *partitionModel) upTo(end int64) *partitionModel {
	c := p.clone()
	c.batches = slices.DeleteFunc(slices.Clone(p.batches),
		func(b appended) bool { return b.base >= end })
	return c
}

// since returns the partition without the batches below an offset.
func (p *partitionModel) since(start int64) *partitionModel {
	c := p.clone()
	c.batches = slices.DeleteFunc(slices.Clone(p.batches),
		func(b appended) bool { return b.last() < start })
	return c
}

// clone copies the value. The elements of the lists never change, only the lengths of the lists
// change.
func (p *partitionModel) clone() *partitionModel {
	c := *p
	c.batches, c.epochs = slices.Clip(p.batches), slices.Clip(p.epochs)
	return &c
}

// filledGap is an empty batch with the offsets [from, to).
type filledGap struct{ from, to int64 }

// filledTo returns the empty batches that are left when the log ends at an offset.
func (p *partitionModel) filledTo(end int64) []filledGap {
	return slices.DeleteFunc(slices.Clone(p.filled), func(f filledGap) bool { return f.to > end })
}

// boundary reports whether the log may end at an offset: between two batches.
func (p *partitionModel) boundary(end int64) bool {
	return end == p.first || end == p.truncatedTo ||
		slices.ContainsFunc(p.filled, func(f filledGap) bool { return f.to == end }) ||
		slices.ContainsFunc(p.batches, func(b appended) bool { return b.last()+1 == end })
}

// latest returns the last batch of each producer below an offset, in its latest epoch.
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

// leaderEpoch returns the latest epoch that a log with this end can know: one that started above
// the end is lost with its records.
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
	value     string // "" if null, because no other is empty
	timestamp int64
	epoch     int32
}

// records lists the data records that were appended in [from, to), with committed those without
// aborted transactions.
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

// removable returns the records that a pass may have removed: superseded ones below cleanable, and
// tombstones and aborted ones there.
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

// missing returns why the records of [from, to) cannot have become what was read; "" if they can:
// each record that was read was appended, each that is missing is removable, and the last value of
// each key is the same.
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
		// In a range that ends below cleanable, the record that supersedes this one may be above.
		if got[key] != r.value && (to >= p.cleanable || !may[r.offset]) {
			return sprint("last value of key %s is %q, was %q", key, got[key], r.value)
		}
	}
	return ""
}
