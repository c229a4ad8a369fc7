package segmentlist

import (
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
)

// Facts contains what segment reports have read from a segment's files. Each fact is read once and
// kept with the handle: a later report of 500 segments then reads no file. The bytes of a sealed
// segment do not change; a truncated segment has another size or another handle.
type Facts struct {
	counts atomic.Pointer[countsFact]
	codec  atomic.Pointer[compress.Codec]
	// While the .dead file was not read yet, dead is nil or points to a value with read unset.
	// ForgetDead stores a new value. The compare-and-swap of a goroutine that has read the old file
	// then fails.
	dead atomic.Pointer[deadFact]
}

// countsFact contains the counts in the key sidecar for a data file of LogBytes bytes.
type countsFact struct {
	logBytes int64
	counts   keys.Counts
}

// deadFact is the result of reading the .dead file for a data file of LogBytes bytes.
type deadFact struct {
	read     bool
	logBytes int64
	summary  *clean.DeadSummary // nil if there is no valid file
}

// ForgetDead makes the next report read the .dead file. It is called after the file has changed.
func (f *Facts) ForgetDead() { f.dead.Store(new(deadFact)) }

// DeadOf returns the summary of the .dead file of a segment whose data file has LogBytes bytes. It
// calls read only if the summary is not known.
func (f *Facts) DeadOf(logBytes int64, read func() *clean.DeadSummary) *clean.DeadSummary {
	known := f.dead.Load()
	if known == nil || !known.read || known.logBytes != logBytes {
		fresh := &deadFact{read: true, logBytes: logBytes, summary: read()}
		f.dead.CompareAndSwap(known, fresh)
		known = fresh
	}
	return known.summary
}

// CountsOf returns the counts in the key sidecar for a data file of LogBytes bytes, if SetCounts
// has stored them.
func (f *Facts) CountsOf(logBytes int64) (counts keys.Counts, ok bool) {
	if known := f.counts.Load(); known != nil && known.logBytes == logBytes {
		return known.counts, true
	}
	return counts, false
}

// SetCounts stores the counts in the key sidecar for a data file of LogBytes bytes.
func (f *Facts) SetCounts(logBytes int64, counts keys.Counts) {
	f.counts.Store(&countsFact{logBytes: logBytes, counts: counts})
}

// FirstCodec returns the codec of the segment's first batch; ok is false if the segment is empty or
// cannot be read.
func (h *Handle) FirstCodec() (codec compress.Codec, ok bool) {
	if known := h.Facts.codec.Load(); known != nil {
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
	h.Facts.codec.Store(&codec)
	return codec, true
}

// Sidecar is the known state of a segment's key sidecar. It is immutable. Handle.Sidecar points to
// it, and is nil until the state was read from the directory.
type Sidecar struct {
	// LogBytes is the size of the data file when the state was computed. If the segment was
	// truncated after that, the data file has another size.
	LogBytes int64
	Digest   uint64 // digest of the existing sidecar; 0 if no sidecar exists
	Verified bool   // true if built from the data or compared with the data
	// Records is the number of records in the sidecar. If no sidecar was ever opened or built,
	// Records is an estimate, and Counted is false.
	Records int
	Counted bool
	Retry   time.Time // earliest time of the next build after a failed build
}

// SidecarState returns the state of the segment's key sidecar, or nil if the state is unknown or
// outdated.
func (h *Handle) SidecarState() *Sidecar {
	state := h.Sidecar.Load()
	if state == nil || state.LogBytes != h.SizeBytes() {
		return nil
	}
	return state
}

// EstimateRecords estimates the number of records in a segment. It reads no file.
func EstimateRecords(h *Handle) int64 {
	if state := h.SidecarState(); state != nil && state.Records > 0 {
		return int64(state.Records)
	}
	return h.SizeBytes() / recordBytesGuess
}

// recordBytesGuess is the assumed size of a record in a segment whose records were not counted.
const recordBytesGuess = 64
