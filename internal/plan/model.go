package plan

// model is one partition in its steady state, one copy of it.
type model struct {
	in     Input
	stored float64 // bytes of a record on disk
	keys   float64

	live, after, dirty float64 // bytes
	sidecar            float64 // bytes for each record
	temporary          bool    // sidecars are made for a pass and removed after it
}

// measure computes what the rest goes by. A pass leaves at most the share of garbage that is
// allowed, so the log behind it has live / (1 - garbage); a pass is due when dirty / (clean +
// dirty) reaches the ratio. Segments are cleaned whole, once they have rolled, so less than one of
// them is never dirty.
func (m *model) measure() {
	m.live = m.keys * m.stored
	m.after = m.live / (1 - m.in.GarbageShare)
	m.dirty = max(dirtyAt(m.in.DirtyRatio, m.after), m.in.SegmentBytes)
	m.sidecar = sidecarPerRecord(m.in.BatchRecords)
	m.temporary = m.stored < sidecarLeastBytes
}

// disk is what the partition needs; growth is what is appended while the broker's cleaner goes
// through all of its partitions.
//
// Beside the log as it is when a pass is due there are the active segment, which is never cleaned,
// and the output of the group that is being rewritten, which is at most one segment, with its
// sidecar: its sources go only once it is committed (F16).
func (m *model) disk(growth float64) Disk {
	d := Disk{LiveBytes: m.live, AfterBytes: m.after, DueBytes: m.after + m.dirty}
	// also temporary ones are all there while a pass runs
	d.SidecarBytes = d.DueBytes / m.stored * m.sidecar
	d.WorkBytes = 2*m.in.SegmentBytes + m.in.SegmentBytes/m.stored*m.sidecar + growth
	d.NeededBytes = d.DueBytes + d.SidecarBytes + d.WorkBytes
	// A pass may be as good as due when the republication begins, and none may end before it does:
	// the bound.
	d.RepublishedTo = (d.DueBytes+m.live)*(1+m.sidecar/m.stored) + d.WorkBytes
	d.Segments = ceil(d.DueBytes/m.in.SegmentBytes) + 1
	return d
}

// steady is a pass in the steady state: as much garbage goes as was appended.
//
// Without garbage allowed, every segment that holds some is rewritten: those of the hot keys. Cold
// keys were written before them, so they lie in segments of their own, at the front, and are not
// touched. With some allowed, the emptiest segments are taken, until the rest is below the bound:
// u/(1-u) records are written for each appended, and 1/(1-u) read (reference 6.1). The garbage lies
// among the hot keys only, so its share there is larger than in the log. The lesser of the two is
// what a pass costs at most.
func (m *model) steady() Pass {
	hot := m.live * m.in.HotShare
	of := uniformPass(hot/m.stored, m.dirty/m.stored, m.in.BatchRecords)
	all := hot + m.dirty
	p := Pass{
		LogReadBytes: all * max(1-of.dead, of.live), LogWrittenBytes: all * of.live,
		FreedBytes:        m.dirty,
		DecompressedBytes: all * of.mixed() * m.in.CompressionRatio,
	}
	if g := m.in.GarbageShare; g > 0 {
		garbage := m.after - m.live
		u := liveFraction(garbage / (garbage + hot))
		if written := rewrites(u) * m.dirty; written < p.LogWrittenBytes {
			share := (written + m.dirty) / all
			p.LogReadBytes = min(p.LogReadBytes, written+m.dirty)
			p.LogWrittenBytes = written
			p.DecompressedBytes = min(p.DecompressedBytes, all*share*m.in.CompressionRatio)
		}
	}
	m.addSidecars(&p, (m.after+m.dirty)/m.stored, m.dirty/m.stored)
	return p
}

// addSidecars adds what reading and making sidecars costs: all of them are read, once for each
// window; those of records that are new, or were rewritten, are made. The leader hashes keys as it
// takes them, so its log is not read for it; of small records the sidecars are made in each pass,
// for the whole log, which is read for that.
func (m *model) addSidecars(p *Pass, records, appended float64) {
	p.SidecarReadBytes = records * m.sidecar * m.windows(records)
	made := appended*sidecarMakes + p.LogWrittenBytes/m.stored
	if m.temporary {
		made = records * sidecarMakes
		p.LogReadBytes += records * m.stored
	}
	p.SidecarWrittenBytes = made * m.sidecar
}

// bits is how many bits of memory a record takes in a pass.
func (m *model) bits() float64 {
	if m.in.Tombstones {
		return 3 // dead, lonely, and an older record of its key is there
	}
	return 1
}

// windows is how often a pass over so many records reads the sidecars.
func (m *model) windows(records float64) float64 {
	return windows(records, m.bits(), m.in.MemoryBytes/float64(m.in.Workers))
}

// memory is what a pass needs when it is due.
func (m *model) memory() Memory {
	budget, records := m.in.MemoryBytes/float64(m.in.Workers), (m.after+m.dirty)/m.stored
	bitmaps := records * m.bits() / 8
	windows := m.windows(records)
	return Memory{BudgetBytes: budget, BitmapBytes: bitmaps,
		Slices: slices(records, bitmaps/windows, budget), Windows: windows}
}

// republication is every key once more, and one pass when all of it is written. Then every older
// record is dead, and no record of the republication is: segments from before are dropped unread,
// those of the republication are not touched. That holds for any order. Passes that run meanwhile
// cost more the less the order is that of the log: docs/plan.md.
func (m *model) republication(perBroker float64) Republication {
	before := m.after + m.dirty
	r := Republication{Pass: Pass{FreedBytes: before}}
	m.addSidecars(&r.Pass, (before+m.live)/m.stored, m.keys)
	if m.in.RepublishRate > 0 {
		r.WriteSeconds = m.in.Keys / m.in.RepublishRate
	}
	if m.in.IORate > 0 {
		r.PassSeconds = r.Pass.Bytes() * perBroker / m.in.IORate
	}
	return r
}

// kafka is what Kafka's cleaner does with the same partition; nil if nobody asked. Its clean
// section has the live records only.
func (m *model) kafka() *Kafka {
	if m.in.KafkaBufferBytes == 0 {
		return nil
	}
	n := kafkaKeys(m.in.KafkaBufferBytes)
	hot := m.keys * m.in.HotShare
	dirty := dirtyAt(m.in.DirtyRatio, m.keys)
	dirty = max(dirty, m.in.SegmentBytes/m.stored)
	topic := func(passes, read, written float64) KafkaCost {
		all := m.stored * float64(m.in.Partitions)
		return KafkaCost{Passes: passes, ReadBytes: read * all, WrittenBytes: written * all}
	}
	return &Kafka{
		KeysPerPass: n,
		Steady:      topic(kafkaPasses(m.keys, dirty, uniformWindow(hot, n))),
		// Keys in any order, each once: a window has as many records as the buffer takes keys.
		Republication: topic(kafkaPasses(m.keys, dirty+m.keys, n)),
	}
}
