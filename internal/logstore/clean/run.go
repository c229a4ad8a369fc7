package clean

import (
	"context"
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

// Errors of Run, in addition to I/O errors. After each of these errors the log is valid, and the
// caller may retry the pass.
var (
	// ErrNoSpace is returned if the pass chose segments to rewrite, but the disk had no space for
	// any of them (F16).
	ErrNoSpace = errors.New("not enough free space to rewrite a segment")
	// ErrSidecar is returned if a sidecar contradicted its segment (F6). Run has rebuilt the
	// sidecar, and the caller retries the pass. If the retry fails with ErrSidecar too, the log is
	// damaged or the code has a bug.
	ErrSidecar = errors.New("key sidecar contradicts its segment")
	// ErrProducersChanged is returned if the last batch of an active producer is no longer the same
	// batch as at the start of the pass. The pass may have dropped the batch that must be kept now
	// (F12).
	ErrProducersChanged = errors.New("the state of a producer changed during the pass")
)

// Run executes one pass. After an error or the end of ctx, the segments that were already replaced
// stay replaced, and unfinished output is deleted. The log is valid at every moment. The returned
// Stats describe the work until the error.
//
// If a sidecar contradicts its segment (F6), Run rebuilds the sidecar and fails with ErrSidecar.
// The caller then retries with the segments that the log contains after the failure.
func Run(ctx context.Context, job Job) (Stats, error) {
	p := newPass(ctx, job.withDefaults())
	err := p.run()
	if wrong := (*sidecarError)(nil); errors.As(err, &wrong) {
		err = errors.Join(err, p.rebuildSidecar(wrong.segment))
	}
	if err == nil {
		p.stats.CleanedTo = job.Bound
	}
	p.stats.MemoryPeakBytes, p.stats.SidecarReadBytes = p.memory.peak, p.io.sidecarBytes.Load()
	p.stats.SegmentsUntouched = p.stats.SegmentsTotal - p.stats.SegmentsRewritten
	return p.stats, errors.Join(err, p.close())
}

// sidecarError reports a sidecar that contradicts its segment. It wraps ErrSidecar.
type sidecarError struct {
	segment *segment.Segment
	reason  string
}

func (e *sidecarError) Error() string {
	return fmt.Sprintf("%v: segment %d: %s", ErrSidecar, e.segment.Base(), e.reason)
}

func (e *sidecarError) Unwrap() error { return ErrSidecar }
