package plan

// model is one replica of a partition in its steady state.
type model struct {
	in     Input
	stored float64 // bytes per record on disk
	keys   float64

	live, after, dirty float64 // bytes
	sidecar            float64 // bytes per record
	temporary          bool    // sidecars are written for a pass and deleted after it
}

// measure computes the sections of the log. A pass leaves at most the allowed fraction of garbage,
// so the size after it is live / (1 - garbage). The next pass is due when dirty / (clean + dirty)
// reaches the ratio. Only rolled segments are cleaned, so the dirty section has at least one.
func (m *model) measure() {
	m.live = m.keys * m.stored
	m.after = m.live / (1 - m.in.GarbageShare)
	m.dirty = max(dirtyAt(m.in.DirtyRatio, m.after), m.in.SegmentBytes)
	m.sidecar = sidecarPerRecord(m.in.BatchRecords)
	m.temporary = m.stored < sidecarLeastBytes
}

// disk returns the disk space of the partition. growth is the amount appended while the broker's
// cleaner processes all of its partitions.
//
// In addition to the log at the time when a pass is due, the space contains the active segment,
// which is never cleaned, and the output of the current rewrite group. The output has at most one
// segment and its sidecar; the sources are deleted only after it is committed (F16).
func (m *model) disk(growth float64) Disk {
	d := Disk{LiveBytes: m.live, AfterBytes: m.after, DueBytes: m.after + m.dirty}
	// temporary sidecars exist all at once during a pass
	d.SidecarBytes = d.DueBytes / m.stored * m.sidecar
	d.WorkBytes = 2*m.in.SegmentBytes + m.in.SegmentBytes/m.stored*m.sidecar + growth
	d.NeededBytes = d.DueBytes + d.SidecarBytes + d.WorkBytes
	// Upper bound: a pass is almost due when the republication starts, and none ends before the
	// republication.
	d.RepublishedTo = (d.DueBytes+m.live)*(1+m.sidecar/m.stored) + d.WorkBytes
	d.Segments = ceil(d.DueBytes/m.in.SegmentBytes) + 1
	return d
}

// steady returns a pass in the steady state, which reclaims as much as was appended.
//
// If no garbage is allowed, the pass rewrites every segment with garbage: those of the hot keys.
// Cold keys were written earlier, so they are in segments of their own at the start of the log. If
// garbage is allowed, the pass rewrites the segments with the most garbage until the rest is below
// the limit: per appended record it writes u/(1-u) records and reads 1/(1-u) (reference 6.1). All
// garbage is among the hot keys, so its fraction there is higher than in the whole log. The cost of
// a pass is at most the lower of the two.
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

// addSidecars adds the I/O for sidecars. A pass reads all sidecars once per window, and writes
// those of new and rewritten records. The log is not read for them, because keys are hashed when
// records are appended. For small records the pass writes the sidecars of the whole log, and reads
// the log for them.
func (m *model) addSidecars(p *Pass, records, appended float64) {
	p.SidecarReadBytes = records * m.sidecar * m.windows(records)
	written := appended*sidecarMakes + p.LogWrittenBytes/m.stored
	if m.temporary {
		written = records * sidecarMakes
		p.LogReadBytes += records * m.stored
	}
	p.SidecarWrittenBytes = written * m.sidecar
}

// bits returns the number of bits per record in the memory of a pass.
func (m *model) bits() float64 {
	if m.in.Tombstones {
		return 3 // dead, removable tombstone, and an older record of the key exists
	}
	return 1
}

// windows returns how often a pass reads the sidecars of the given number of records.
func (m *model) windows(records float64) float64 {
	return windows(records, m.bits(), m.in.MemoryBytes/float64(m.in.Workers))
}

// memory returns the memory of a pass.
func (m *model) memory() Memory {
	budget, records := m.in.MemoryBytes/float64(m.in.Workers), (m.after+m.dirty)/m.stored
	bitmaps := records * m.bits() / 8
	windows := m.windows(records)
	return Memory{BudgetBytes: budget, BitmapBytes: bitmaps,
		Slices: slices(records, bitmaps/windows, budget), Windows: windows}
}

// republication returns the cost of writing every key again, and of one pass afterwards. All older
// records are dead then, and no record of the republication is: the pass drops the older segments
// without reading them, and keeps the newer ones. This holds for any order of keys. The cost of
// passes during the republication depends on the order: docs/plan.md.
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

// kafka returns the cost of Kafka's cleaner for the same partition; nil without a buffer size. Its
// clean section contains only live records.
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
		// Every key occurs once, so a window has as many records as the buffer has keys.
		Republication: topic(kafkaPasses(m.keys, dirty+m.keys, n)),
	}
}
