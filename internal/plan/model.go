package plan

// model describes one replica of a partition in its steady state.
type model struct {
	in     Input
	stored float64 // mean bytes per record on disk
	keys   float64

	// all in bytes: live records; log after a pass; dirty section when a pass is due
	live, after, dirty float64
	sidecar            float64 // bytes of key sidecar per record
	temporary          bool    // a pass writes temporary sidecars and deletes them at its end
}

// measure computes the sizes of the model. A pass leaves at most the fraction GarbageShare of
// garbage, so the size after a pass is live / (1 - GarbageShare). The next pass is due when dirty /
// (clean + dirty) reaches DirtyRatio. Only sealed segments are cleaned, so the dirty section
// contains at least one segment.
func (m *model) measure() {
	m.live = m.keys * m.stored
	m.after = m.live / (1 - m.in.GarbageShare)
	m.dirty = max(dirtyAt(m.in.DirtyRatio, m.after), m.in.SegmentBytes)
	m.sidecar = sidecarPerRecord(m.in.BatchRecords)
	m.temporary = m.stored < sidecarLeastBytes
}

// disk returns a partition's disk space. Parameter growth is the number of bytes that are appended
// while the broker's cleaner cleans all of the broker's partitions.
//
// The needed space is the sum of the log's size when a pass is due, the active segment, which is
// never cleaned, and the output of the current rewrite group. The output has the size of at most
// one segment and its sidecar. The source segments are deleted only after the output is committed
// (F16).
func (m *model) disk(growth float64) Disk {
	d := Disk{LiveBytes: m.live, AfterBytes: m.after, DueBytes: m.after + m.dirty}
	// Temporary sidecars exist for the whole log at the same time during a pass, so they need the
	// same space as permanent ones.
	d.SidecarBytes = d.DueBytes / m.stored * m.sidecar
	d.WorkBytes = 2*m.in.SegmentBytes + m.in.SegmentBytes/m.stored*m.sidecar + growth
	d.NeededBytes = d.DueBytes + d.SidecarBytes + d.WorkBytes
	// This is an upper bound: a pass is almost due when the republication starts, and no pass ends
	// before the republication does.
	d.RepublishedTo = (d.DueBytes+m.live)*(1+m.sidecar/m.stored) + d.WorkBytes
	d.Segments = ceil(d.DueBytes/m.in.SegmentBytes) + 1
	return d
}

// steady returns the work of a pass in the steady state, in which a pass reclaims as much as was
// appended since the last one.
//
// If no garbage is allowed, the pass rewrites every segment with garbage: those with records of hot
// keys. Records of cold keys were written earlier, so they are in separate segments at the start of
// the log. If garbage is allowed, the pass rewrites the segments with the most garbage until the
// remaining garbage is below the limit. For each appended record, it then writes u/(1-u) records
// and reads 1/(1-u) records. The fraction of garbage in the segments of hot keys determines u. The
// estimate is the cheaper of the two.
func (m *model) steady() Pass {
	hot := m.live * m.in.HotShare
	shares := uniformPass(hot/m.stored, m.dirty/m.stored, m.in.BatchRecords)
	all := hot + m.dirty
	p := Pass{
		LogReadBytes: all * max(1-shares.dead, shares.live), LogWrittenBytes: all * shares.live,
		FreedBytes:        m.dirty,
		DecompressedBytes: all * shares.mixed() * m.in.CompressionRatio,
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

// addSidecars adds the I/O on sidecars to a pass. The pass reads all sidecars once per pass window,
// and the cost includes writing the sidecars of appended and rewritten records. The log is not read
// to build sidecars, because keys are hashed when records are appended. But if records are so small
// that sidecars are temporary, the pass reads the whole log and writes all sidecars.
func (m *model) addSidecars(p *Pass, records, appended float64) {
	p.SidecarReadBytes = records * m.sidecar * m.windows(records)
	written := appended*sidecarMakes + p.LogWrittenBytes/m.stored
	if m.temporary {
		written = records * sidecarMakes
		p.LogReadBytes += records * m.stored
	}
	p.SidecarWrittenBytes = written * m.sidecar
}

// bits returns the number of bits per record in the bitmaps of a pass.
func (m *model) bits() float64 {
	if m.in.Tombstones {
		// three bitmaps: dead records, removable tombstones, and tombstones with an older record of
		// their key
		return 3
	}
	return 1
}

// windows returns the number of pass windows for a log of the given number of records.
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

// republication returns the cost of writing every key again, and of one pass afterwards. At that
// time all older records are dead, and all new records are live. So the pass deletes the older
// segments without reading them and keeps the new ones, for any order of keys. The cost of passes
// during the republication depends on the order of keys; see docs/operate/sizing.md. Parameter
// perBroker is the number of partition replicas on a broker.
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

// kafka returns the cost of Kafka's cleaner for the same topic, or nil if no buffer size is set.
// With Kafka's cleaner, the clean section contains only live records.
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
		// In a republication every key occurs once, so each pass processes as many records as the
		// buffer has space for keys.
		Republication: topic(kafkaPasses(m.keys, dirty+m.keys, n)),
	}
}
