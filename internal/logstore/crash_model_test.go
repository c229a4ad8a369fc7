package logstore

import (
	"slices"

	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// presence is where a partition's data is, as far as a caller of the store knows.
type presence int

const (
	absent  presence = iota // never made, or released and deleted
	present                 // made and not released
	aside                   // released, retained
)

// promised is what the store has promised of one partition, and what it may have done besides: the
// dumb model of the crash test. It keeps everything that was ever appended in a list.
//
// Each operation first widens what may be (it has begun), and then narrows it to what must be (it
// returned): a crash in between may leave either. A value of this type is a copy of everything that
// changes.
type promised struct {
	id       PartitionID
	topic    TopicID
	settings topicconfig.Settings
	retain   bool
	where    presence
	next     presence // where it may be too: an operation that moves it is under way

	first   int64      // where the log began
	batches []appended // all whose append began, also below start
	// where the last truncation ended the log: maybe in a gap between two batches
	cutTo int64
	// filled are the empty batches that truncations within a gap appended (ADR 0100), ascending: a
	// crash may end the log at any of them, and a truncation removes each as a whole.
	filled  []filledGap
	restart int64 // where the log is to begin anew, while that is under way; none else
	synced  int64 // all below it was said to be durable: it must be there
	// start is the log start that is durable, startMax what retention may have reached. The same of
	// the high watermark and the end of what is clean.
	start, startMax               int64
	highWatermark, highWatermarkM int64
	epochs                        []leaderepoch.Entry
	// epochs are being added or dropped: the last ones may be unknown
	leading   bool
	cleanable int64 // below it a pass may have removed what is superseded
	// relied is up to where a pass or a deletion took the log for replicated: it goes by markers
	// below, and by producer state as of there.
	relied int64
	// forgotten: of who wrote below it only, nothing need be known. It was deleted while the disk
	// was full.
	forgotten int64
}

// appended is a batch as it was sent, and where it went.
type appended struct {
	base  int64
	epoch int32 // of the leader
	sent  sent
	wire  []byte // as sent
	nulls bool   // all values are null: tombstones
	// marker ends a transaction, if it is not nil: one control record, and nothing sent.
	marker *EndTxn
}

func (a appended) last() int64 { return a.base + max(int64(len(a.sent.keys)), 1) - 1 }

// none is no offset.
const none = -1

// end is where the log ends if nothing is lost.
func (p *promised) end() int64 { return max(p.cutTo, p.dataEnd()) }

// dataEnd is the end of the last batch: a crash may take a gap behind it.
func (p *promised) dataEnd() int64 {
	if len(p.batches) == 0 {
		return p.first
	}
	return p.batches[len(p.batches)-1].last() + 1
}

// begin makes the partition an empty log at an offset, of which nothing is known.
func (p *promised) begin(offset int64) {
	p.first, p.cutTo, p.batches, p.epochs, p.leading = offset, offset, nil, nil, false
	p.filled = nil
	p.synced, p.cleanable, p.start, p.startMax, p.highWatermark, p.highWatermarkM = offset, offset,
		offset, offset, offset, offset
	p.relied, p.forgotten = 0, 0
}

// upTo is the partition as it is when the log ends at an offset.
func (p *promised) upTo(end int64) *promised {
	c := p.clone()
	c.batches = slices.DeleteFunc(slices.Clone(p.batches),
		func(b appended) bool { return b.base >= end })
	return c
}

// since is the partition without the batches below an offset.
func (p *promised) since(start int64) *promised {
	c := p.clone()
	c.batches = slices.DeleteFunc(slices.Clone(p.batches),
		func(b appended) bool { return b.last() < start })
	return c
}

// clone copies the value. What the lists hold never changes, only how much of them counts.
func (p *promised) clone() *promised {
	c := *p
	c.batches, c.epochs = slices.Clip(p.batches), slices.Clip(p.epochs)
	return &c
}

// filledGap is an empty batch with the offsets [from, to).
type filledGap struct{ from, to int64 }

// filledTo returns the empty batches that are left when the log ends at an offset.
func (p *promised) filledTo(end int64) []filledGap {
	return slices.DeleteFunc(slices.Clone(p.filled), func(f filledGap) bool { return f.to > end })
}

// boundary tells whether the log may end at an offset: between two batches.
func (p *promised) boundary(end int64) bool {
	return end == p.first || end == p.cutTo ||
		slices.ContainsFunc(p.filled, func(f filledGap) bool { return f.to == end }) ||
		slices.ContainsFunc(p.batches, func(b appended) bool { return b.last()+1 == end })
}

// latest is the last batch of each producer below an offset, in its latest epoch.
func (p *promised) latest(end int64) map[int64]appended {
	latest := map[int64]appended{}
	for _, b := range p.batches {
		if b.base >= end {
			break
		}
		switch {
		case b.marker != nil && latest[b.marker.ProducerID].sent.epoch != b.marker.ProducerEpoch:
			delete(latest, b.marker.ProducerID)
		case b.marker == nil && b.sent.producer != 0:
			latest[b.sent.producer] = b
		}
	}
	return latest
}

// leaderEpoch is the latest epoch that a log with this end can know of: one that began above the
// end is lost with what it appended.
func (p *promised) leaderEpoch(end int64) int32 {
	latest := int32(-1)
	for _, e := range p.epochs {
		if e.Start <= end {
			latest = max(latest, e.Epoch)
		}
	}
	return latest
}

// modelRecord is a record with what must not change of it.
type modelRecord struct {
	offset    int64
	key       string
	value     string // "" if null, as no other is empty
	timestamp int64
	epoch     int32
}

// records lists what was appended in [from, to), data only, and without aborted transactions if
// only what was committed is wanted.
func (p *promised) records(from, to int64, committed bool) (records []modelRecord) {
	aborted := p.transactions().aborted
	for _, b := range p.batches {
		if committed && aborted[b.base] {
			continue
		}
		for i, key := range b.sent.keys {
			offset := b.base + int64(i)
			if offset < from || offset >= to {
				continue
			}
			value := b.sent.value
			if b.nulls {
				value = ""
			}
			records = append(records,
				modelRecord{offset, key, value, b.sent.timestamp.UnixMilli(), b.epoch})
		}
	}
	return records
}

// removable are the records that a pass may have removed: superseded below cleanable, tombstones
// and aborted ones there.
func (p *promised) removable() map[int64]bool {
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
// each read record is one that was appended, each that is missing is removable, and the last value
// of each key is the same.
func (p *promised) missing(read []modelRecord, from, to int64, committed bool) string {
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
		return sprint("read %+v, which nobody appended", read[0])
	}
	for key, r := range final {
		// Of a view that ends below cleanable the record that supersedes this one may lie above.
		if got[key] != r.value && (to >= p.cleanable || !may[r.offset]) {
			return sprint("key %s is %q in the end, was %q", key, got[key], r.value)
		}
	}
	return ""
}
