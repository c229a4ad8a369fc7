package logstore

import (
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
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

// deadOf returns the summary of the .dead file of a segment whose data file has logBytes bytes. It
// calls read for it only if the summary is not known.
func (f *segmentFacts) deadOf(logBytes int64, read func() *clean.DeadSummary) *clean.DeadSummary {
	known := f.dead.Load()
	if known == nil || !known.read || known.logBytes != logBytes {
		fresh := &deadFact{read: true, logBytes: logBytes, summary: read()}
		f.dead.CompareAndSwap(known, fresh)
		known = fresh
	}
	return known.summary
}

// countsOf returns the counts of the key sidecar for a data file of logBytes bytes, if setCounts
// has stored them.
func (f *segmentFacts) countsOf(logBytes int64) (counts keys.Counts, ok bool) {
	if known := f.counts.Load(); known != nil && known.logBytes == logBytes {
		return known.counts, true
	}
	return counts, false
}

// setCounts stores the counts of the key sidecar for a data file of logBytes bytes.
func (f *segmentFacts) setCounts(logBytes int64, counts keys.Counts) {
	f.counts.Store(&countsFact{logBytes: logBytes, counts: counts})
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

// sidecarState is the known state of a segment's key sidecar. It is immutable. handle.sidecar
// points to it, and is nil until the state was read from the directory.
type sidecarState struct {
	// logBytes is the size of the data file when the state was computed. If the segment was
	// truncated after that, the data file has another size.
	logBytes int64
	digest   uint64 // digest of the existing sidecar; 0 if no sidecar exists
	verified bool   // the sidecar was built from the data or compared with it
	// records is the number of records in the sidecar. If no sidecar was ever opened or built, it
	// is an estimate, and counted is not set.
	records int
	counted bool
	retry   time.Time // after a failed build: the sidecar is not built again before this time
}

// sidecarState returns the state of the segment's key sidecar, nil if the state is unknown or
// outdated.
func (h *handle) sidecarState() *sidecarState {
	state := h.sidecar.Load()
	if state == nil || state.logBytes != h.SizeBytes() {
		return nil
	}
	return state
}

// recordsIn estimates the number of records in a segment. It reads no file.
func recordsIn(h *handle) int64 {
	if state := h.sidecarState(); state != nil && state.records > 0 {
		return int64(state.records)
	}
	return h.SizeBytes() / recordBytesGuess
}

// recordBytesGuess is the assumed size of a record in a segment whose records were not counted.
const recordBytesGuess = 64
