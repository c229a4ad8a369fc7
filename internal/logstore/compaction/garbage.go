package compaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/vfs"
)

// Garbage is the amount of garbage of a log at one moment.
type Garbage struct {
	Sections Sections // the sections of the log when the garbage was computed
	// Known is false if only a pass can compute the garbage, because some segment has no key
	// sidecar and will not get one.
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

// EstimateGarbage returns the garbage of the log. If nothing is dirty or deleted, the result is
// exact, from the .dead files that the last pass wrote. Otherwise the result is an estimate from a
// sample of the keys. EstimateGarbage builds no sidecar: for a log whose records are too small to
// keep sidecars, building them would cost as much as a pass.
func (c *Compaction) EstimateGarbage(ctx context.Context, opts EstimateOptions) (Garbage, error) {
	v := c.View(time.Now())
	defer v.Release()
	found := Garbage{Sections: v.Sections}
	if v.DirtyBytes == 0 && !v.Deleted { // the last pass may not know of the deleted records
		if bytes, ok := c.countedGarbage(v); ok {
			found.Known, found.Exact, found.Bytes = true, true, bytes
			return found, nil
		}
	}
	handles, err := c.withSidecars(v)
	if err != nil || handles == nil {
		return found, err
	}
	sample, err := clean.EstimateGarbage(ctx, c.estimateJob(v, handles, opts))
	if err != nil {
		return found, fmt.Errorf("estimate garbage: %w", err)
	}
	found.Known, found.Bytes, found.Error = true, sample.GarbageBytes, sample.Error
	return found, nil
}

// withSidecars returns the handle of each segment in the view if every one of these segments has a
// key sidecar. It returns nil if a segment will never have one, and ErrSidecarsMissing if one is
// not built yet. The view holds references to the segments.
func (c *Compaction) withSidecars(v View) (map[*segment.Segment]*segmentlist.Handle, error) {
	list := c.env.List.Acquire()
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

// deletedBelow returns the offset below which a pass may remove records as deleted: the log start
// that is on disk. If only the log start in memory were higher, a crash would lower the log start
// again. The log would then contain older records of a key whose latest record the pass removed.
func (c *Compaction) deletedBelow(v View) int64 {
	return min(v.LogStart, max(0, c.env.SavedStart()))
}

func (c *Compaction) estimateJob(v View, handles map[*segment.Segment]*segmentlist.Handle,
	opts EstimateOptions) clean.Job {
	job := clean.Job{
		LogStart: c.deletedBelow(v), FirstDirty: v.FirstDirty, Bound: v.Bound,
		AbortedAcrossBound: v.aborted, Producers: v.producers,
		Limits: clean.Limits{MemoryBytes: opts.MemoryBytes},
		Env: clean.Env{
			OpenSidecar: func(_ context.Context, s *segment.Segment,
				_ clean.SidecarOptions) (*keys.Reader,
				error) {
				return c.Sidecars.Open(handles[s], false)
			},
			Throttle: func(ctx context.Context, n int) error {
				c.Sidecars.ReadBytes.Add(int64(n))
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
func (c *Compaction) countedGarbage(v View) (bytes int64, ok bool) {
	for _, s := range v.Segments {
		content := c.LoadDead(s)
		if content == nil {
			continue
		}
		d, err := clean.DecodeDeadFile(content)
		if err != nil || d.Base != s.Base() || d.LogBytes != s.SizeBytes() ||
			d.ComputedThrough > v.Bound || d.Lineage != c.env.EpochBelow(d.ComputedThrough) {
			return 0, false
		}
		bytes += d.DeadBytes
	}
	return bytes, true
}

// deadBytesMax is the size above which LoadDead ignores a .dead file, so that a damaged file cannot
// exhaust the memory. Valid files are smaller: they contain one bit for each record, of which a key
// sidecar holds 2^30 at most, and a few bytes for each removable tombstone.
const deadBytesMax = 256 << 20

// LoadDead returns the content of the .dead file of a segment, nil if the segment has no .dead file
// or the file cannot be read. In that case a pass computes the content again.
func (c *Compaction) LoadDead(s *segment.Segment) []byte {
	fsys, name := c.env.FS, c.Sidecars.Path(s.Base(), segment.DeadExtension, "")
	info, err := fsys.Stat(name)
	if err != nil || info.Size() > deadBytesMax {
		return nil
	}
	content, err := fsys.ReadFile(name)
	if err != nil {
		c.env.Logger.Warn(
			"failed to read the .dead file of a segment; the next pass rebuilds it",
			"partition", c.env.ID, "segment", s.Base(), "error", err)
		return nil
	}
	return content
}

// saveDead writes the .dead file of a segment that is in the log; nil content deletes it.
func (c *Compaction) saveDead(s *segment.Segment, content []byte) error {
	return c.env.Keep(s, func(h *segmentlist.Handle) error {
		defer h.Facts.ForgetDead()
		name := c.Sidecars.Path(s.Base(), segment.DeadExtension, "")
		if content == nil {
			if err := c.env.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: %w", segmentlist.ErrStorage, err)
			}
			return nil
		}
		if err := vfs.WriteFileAtomic(c.env.FS, name, content); err != nil {
			return fmt.Errorf("%w: %w", segmentlist.ErrStorage, err)
		}
		return nil
	})
}

// deadSummary returns the summary of the segment's .dead file; nil if there is none that was
// computed for the present bytes of the segment. The caller checks the lineage.
func (c *Compaction) deadSummary(h *segmentlist.Handle) *clean.DeadSummary {
	size := h.SizeBytes()
	d := h.Facts.DeadOf(size, func() *clean.DeadSummary { return c.readDeadSummary(h) })
	if d == nil || d.Base != h.Base() || d.LogBytes != size {
		return nil
	}
	if state := h.SidecarState(); state != nil && state.Digest != 0 && state.Digest != d.Identity {
		return nil
	}
	return d
}

func (c *Compaction) readDeadSummary(h *segmentlist.Handle) *clean.DeadSummary {
	file, err := c.env.FS.Open(c.Sidecars.Path(h.Base(), segment.DeadExtension, ""))
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
