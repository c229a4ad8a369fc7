package logstore

import (
	"errors"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// segmentFacts are what segment reports have read from the files of a segment. Each fact is read
// once and kept with the handle: a report of 500 segments then reads no file. The bytes of a sealed
// segment do not change; a truncated segment has another size or another handle.
type segmentFacts struct {
	counts atomic.Pointer[countsFact]
	codec  atomic.Pointer[compress.Codec]
	// dead is nil, or has read unset, if the .dead file was not read yet. forgetDead stores a new
	// value, so that the compare-and-swap of a goroutine that has read the old file fails.
	dead atomic.Pointer[deadFact]
}

// countsFact contains the counts of the key sidecar for a data file of logBytes.
type countsFact struct {
	logBytes int64
	counts   keys.Counts
}

// deadFact is the result of reading the .dead file of a data file of logBytes.
type deadFact struct {
	read     bool
	logBytes int64
	summary  *clean.DeadSummary // nil: there is no valid file
}

// forgetDead makes the next report read the .dead file. It is called after the file has changed.
func (f *segmentFacts) forgetDead() { f.dead.Store(new(deadFact)) }

// countsOf returns the counts in the key sidecar of a segment; ok is false if the segment has no
// usable sidecar now. It does not change the state of the sidecar, which only builds change.
func (s *sidecars) countsOf(h *handle) (counts keys.Counts, ok bool) {
	if known := h.facts.counts.Load(); known != nil && known.logBytes == h.SizeBytes() {
		return known.counts, true
	}
	want, state, err := s.expect(h)
	if err != nil || state != nil && state.digest == 0 {
		return counts, false
	}
	reader, err := keys.Open(s.fs, s.name(h.Base()), want)
	if err != nil {
		return counts, false
	}
	fact := &countsFact{logBytes: want.LogBytes, counts: reader.Counts()}
	_ = reader.Close() // the file was only read
	h.facts.counts.Store(fact)
	return fact.counts, true
}

// firstCodec returns the codec of the segment's first batch; ok is false if the segment is empty or
// cannot be read.
func (h *handle) firstCodec() (codec compress.Codec, ok bool) {
	if known := h.facts.codec.Load(); known != nil {
		return *known, true
	}
	if h.SizeBytes() == 0 {
		return codec, false
	}
	header, err := h.HeaderAt(0)
	if err != nil {
		return codec, false
	}
	codec = header.Codec()
	h.facts.codec.Store(&codec)
	return codec, true
}

// deadSummary returns the summary of the segment's .dead file; nil if there is none that was
// computed for the present bytes of the segment. The caller checks the lineage.
func (c *Compaction) deadSummary(h *handle) *clean.DeadSummary {
	known, size := h.facts.dead.Load(), h.SizeBytes()
	if known == nil || !known.read || known.logBytes != size {
		fresh := &deadFact{read: true, logBytes: size, summary: c.readDeadSummary(h)}
		h.facts.dead.CompareAndSwap(known, fresh)
		known = fresh
	}
	d := known.summary
	if d == nil || d.Base != h.Base() || d.LogBytes != size {
		return nil
	}
	if state := h.sidecarState(); state != nil && state.digest != 0 && state.digest != d.Identity {
		return nil
	}
	return d
}

func (c *Compaction) readDeadSummary(h *handle) *clean.DeadSummary {
	file, err := c.log.env.fs.Open(c.sidecars.path(h.Base(), segment.DeadExtension, ""))
	if err != nil {
		return nil
	}
	size, err := file.Size()
	var d *clean.DeadSummary
	if err == nil {
		d, err = clean.ReadDeadSummary(file, size)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil
	}
	return d
}
