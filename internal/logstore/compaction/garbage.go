package compaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
)

// Garbage is the amount of garbage in a log at one moment.
type Garbage struct {
	Sections Sections // sections of the log when the garbage was computed
	// Known is false if only a pass can compute the garbage, because a segment has no key sidecar
	// and will not get one.
	Known bool
	Exact bool // true if a pass counted the bytes; false if they are estimated
	Bytes int64
	Error float64 // maximum error of Bytes as a share of the log, 0 to 1
}

// ErrSidecarsMissing is returned by EstimateGarbage if a key sidecar that the estimate needs is not
// built yet.
var ErrSidecarsMissing = errors.New("key sidecars are not built yet")

// EstimateOptions limits the resources that EstimateGarbage uses.
type EstimateOptions struct {
	MemoryBytes int64
	Throttle    func(ctx context.Context, n int) error // called before n bytes are read; may be nil
}

// EstimateGarbage estimates the garbage of the log. If nothing is dirty or deleted, the result is
// exact: the sum of the .dead files that the last pass wrote. Otherwise it is extrapolated from a
// sample of the keys. EstimateGarbage builds no sidecars. Logs with small records have no sidecars,
// and building them for the estimate would cost as much as a pass.
func (c *Compaction) EstimateGarbage(ctx context.Context, opts EstimateOptions) (Garbage, error) {
	v := c.View(time.Now())
	defer v.Release()
	found := Garbage{Sections: v.Sections}
	if v.DirtyBytes == 0 && !v.Deleted { // the last pass may not have counted the deleted records
		if bytes, ok := countedGarbage(v, &c.Dead, c.env.EpochBelow); ok {
			found.Known, found.Exact, found.Bytes = true, true, bytes
			return found, nil
		}
	}
	handles, err := withSidecars(v, c.env.List)
	if err != nil || handles == nil {
		return found, err
	}
	job := estimateJob(v, handles, &c.Sidecars, opts)
	job.LogStart = deletedBelow(v, c.env.SavedStart())
	sample, err := clean.EstimateGarbage(ctx, job)
	if err != nil {
		return found, fmt.Errorf("estimate garbage: %w", err)
	}
	found.Known, found.Bytes, found.Error = true, sample.GarbageBytes, sample.Error
	return found, nil
}

// withSidecars returns each segment's handle if every segment in the view has a key sidecar. It
// returns nil if a segment will never have a sidecar, and ErrSidecarsMissing if a sidecar is not
// built yet. The view holds references to the segments.
func withSidecars(v View, current *segmentlist.Current) (
	map[*segment.Segment]*segmentlist.Handle, error) {
	list := current.Acquire()
	if list == nil {
		return nil, segmentlist.ErrClosed
	}
	defer list.Release()
	handles := map[*segment.Segment]*segmentlist.Handle{}
	for _, s := range v.Segments {
		index := slices.IndexFunc(list.Handles,
			func(h *segmentlist.Handle) bool { return h.Segment == s })
		if index < 0 {
			return nil, ErrSidecarsMissing // the segment was replaced meanwhile
		}
		state := list.Handles[index].SidecarState()
		switch {
		case state == nil || state.Digest == 0 && state.Retry.IsZero() &&
			sidecars.Keeps(state.LogBytes, state.Records):
			return nil, ErrSidecarsMissing
		case state.Digest == 0:
			return nil, nil // the records are too small for a sidecar, or the sidecar is damaged
		}
		handles[s] = list.Handles[index]
	}
	return handles, nil
}

// estimateJob returns the job of an estimate, except for its log start.
func estimateJob(v View, handles map[*segment.Segment]*segmentlist.Handle,
	files *sidecars.Set, opts EstimateOptions) clean.Job {
	job := clean.Job{
		FirstDirty: v.FirstDirty, Bound: v.Bound,
		AbortedAcrossBound: v.aborted, Producers: v.producers,
		Limits: clean.Limits{MemoryBytes: opts.MemoryBytes},
		Env: clean.Env{
			OpenSidecar: func(_ context.Context, s *segment.Segment,
				_ clean.SidecarOptions) (*keys.Reader,
				error) {
				return files.Open(handles[s], false)
			},
			Throttle: func(ctx context.Context, n int) error {
				files.ReadBytes.Add(int64(n))
				if opts.Throttle == nil {
					return ctx.Err()
				}
				return opts.Throttle(ctx, n)
			},
		},
	}
	for _, s := range v.Segments {
		job.Sources = append(job.Sources, clean.Source{
			Segment: s, NoAbortedTxns: handles[s].AbortedCount() == 0,
		})
	}
	return job
}

// countedGarbage returns the sum of the garbage in the .dead files of a log without a dirty
// section. ok is false if a .dead file does not match its segment or the log. A pass writes the
// .dead files before it moves the first dirty offset, so a segment without a .dead file has no
// garbage.
func countedGarbage(v View, dead *DeadFiles, lineage func(int64) uint64) (bytes int64, ok bool) {
	for _, s := range v.Segments {
		content := dead.Load(s)
		if content == nil {
			continue
		}
		d, err := clean.DecodeDeadFile(content)
		if err != nil || d.Base != s.Base() || d.LogBytes != s.SizeBytes() ||
			d.ComputedThrough > v.Bound || d.Lineage != lineage(d.ComputedThrough) {
			return 0, false
		}
		bytes += d.DeadBytes
	}
	return bytes, true
}
