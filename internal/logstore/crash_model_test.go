package logstore

import (
	"slices"

	"heartwood.dev/heartwood/internal/topicconfig"
)

// presence is where a partition's data is, as far as a caller of the store knows.
type presence int

const (
	absent  presence = iota // never made, or released and deleted
	present                 // made and not released
	aside                   // released, retained
)

// promised is what the store has promised of one partition, and what it may have done besides: the dumb model of the crash test. It
// keeps everything that was ever appended in a list.
//
// Each operation first widens what may be (it has begun), and then narrows it to what must be (it returned): a crash in between may
// leave either. A value of this type is a copy of everything that changes.
type promised struct {
	id       PartitionID
	topic    TopicID
	settings topicconfig.Settings
	retain   bool
	where    presence
	next     presence // where it may be too: an operation that moves it is under way

	first   int64      // where the log began
	batches []appended // all whose append began, also below start
	synced  int64      // all below it was said to be durable: it must be there
	// start is the log start that is durable, startMax what retention may have reached. The same of the high watermark and the end of
	// what is clean.
	start, startMax               int64
	highWatermark, highWatermarkM int64
	epochs                        []epochEntry // whose Lead returned, or began (then the last one is leading)
	leading                       bool
	cleanable                     int64 // below it a pass may have removed what is superseded
}

// appended is a batch as it was sent, and where it went.
type appended struct {
	base  int64
	epoch int32 // of the leader
	sent  sent
	wire  []byte // as sent
	nulls bool   // all values are null: tombstones
}

func (a appended) last() int64 { return a.base + int64(len(a.sent.keys)) - 1 }

// end is where the log ends if nothing is lost.
func (p *promised) end() int64 {
	if len(p.batches) == 0 {
		return p.first
	}
	return p.batches[len(p.batches)-1].last() + 1
}

// clone copies the value. What the lists hold never changes, only how much of them counts.
func (p *promised) clone() *promised {
	c := *p
	c.batches, c.epochs = slices.Clip(p.batches), slices.Clip(p.epochs)
	return &c
}

// boundary tells whether the log may end at an offset: between two batches.
func (p *promised) boundary(end int64) bool {
	return end == p.first || slices.ContainsFunc(p.batches, func(b appended) bool { return b.last()+1 == end })
}

// latest is the last batch of each producer below an offset.
func (p *promised) latest(end int64) map[int64]appended {
	latest := map[int64]appended{}
	for _, b := range p.batches {
		if b.base < end && b.sent.producer != 0 {
			latest[b.sent.producer] = b
		}
	}
	return latest
}

// leaderEpoch is the latest epoch that a log with this end can know of: one that began above the end is lost with what it appended.
func (p *promised) leaderEpoch(end int64) int32 {
	latest := int32(-1)
	for _, e := range p.epochs {
		if e.start <= end {
			latest = max(latest, e.epoch)
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

// records lists what was appended in [from, to).
func (p *promised) records(from, to int64) (records []modelRecord) {
	for _, b := range p.batches {
		for i, key := range b.sent.keys {
			offset := b.base + int64(i)
			if offset < from || offset >= to {
				continue
			}
			value := b.sent.value
			if b.nulls {
				value = ""
			}
			records = append(records, modelRecord{offset, key, value, b.sent.timestamp.UnixMilli(), b.epoch})
		}
	}
	return records
}

// missing returns why the records of [from, to) cannot have become what was read; "" if they can: each read record is one that was
// appended, each that is missing was superseded below cleanable or is a tombstone there, and the last value of each key is the same.
func (p *promised) missing(read []modelRecord, from, to int64) string {
	want := p.records(from, to)
	newest := map[string]int64{} // below cleanable
	final, got := map[string]string{}, map[string]string{}
	for _, r := range want {
		final[r.key] = r.value
		if r.offset < p.cleanable {
			newest[r.key] = r.offset
		}
	}
	for _, r := range want {
		if len(read) > 0 && read[0] == r {
			got[r.key] = r.value
			read = read[1:]
			continue
		}
		switch {
		case len(read) > 0 && read[0].offset <= r.offset:
			return sprint("read %+v, appended was %+v", read[0], r)
		case r.offset >= p.cleanable:
			return sprint("%+v is missing: nothing was cleaned at or above %d", r, p.cleanable)
		case newest[r.key] == r.offset && r.value != "":
			return sprint("%+v is missing, and nothing below %d supersedes it", r, p.cleanable)
		}
	}
	if len(read) > 0 {
		return sprint("read %+v, which nobody appended", read[0])
	}
	for key, value := range final {
		if got[key] != value {
			return sprint("key %s is %q in the end, was %q", key, got[key], value)
		}
	}
	return ""
}
