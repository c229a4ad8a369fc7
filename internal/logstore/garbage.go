package logstore

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
	"heartwood.dev/heartwood/internal/vfs"
)

// Garbage is the garbage of a log at one moment.
type Garbage struct {
	Sections Sections // of the log when it was computed
	// Known is false if only a pass can compute the garbage, because the records of some segment
	// are too small for a sidecar.
	Known bool
	Exact bool // the bytes were counted by a pass, not estimated
	Bytes int64
	Error float64 // maximum error of the estimated share of garbage, 0..1
}

// ErrSidecarsMissing is returned by EstimateGarbage while some sidecars are still to be built.
var ErrSidecarsMissing = errors.New("key sidecars are not built yet")

// EstimateOptions are the budget of an estimate.
type EstimateOptions struct {
	MemoryBytes int64
	Throttle    func(ctx context.Context, n int) error // bytes read; may be nil
}

// EstimateGarbage returns the garbage of the log: exactly, from the .dead files that the last pass
// wrote, if nothing is dirty; else from a sample of the keys. It builds no sidecar: for a log whose
// records are too small to keep sidecars, building them would cost as much as a pass.
func (c *Compaction) EstimateGarbage(ctx context.Context, opts EstimateOptions) (Garbage, error) {
	v := c.view(time.Now())
	defer v.release()
	found := Garbage{Sections: v.Sections}
	if v.DirtyBytes == 0 {
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

// withSidecars returns the handles of a view's segments, to which the view holds references, if
// each segment has a sidecar; nil if a segment will never have one.
func (c *Compaction) withSidecars(v passView) (map[*segment.Segment]*handle, error) {
	list := c.log.acquire()
	if list == nil {
		return nil, ErrClosed
	}
	defer list.release()
	handles := map[*segment.Segment]*handle{}
	for _, s := range v.segments {
		at := slices.IndexFunc(list.handles, func(h *handle) bool { return h.Segment == s })
		if at < 0 {
			return nil, ErrSidecarsMissing // the segment was replaced meanwhile
		}
		state := list.handles[at].sidecarState()
		switch {
		case state == nil || state.digest == 0 && state.retry.IsZero() &&
			keepsSidecar(state.logBytes, state.records):
			return nil, ErrSidecarsMissing
		// the records are too small for a sidecar, or the sidecar is damaged
		case state.digest == 0:
			return nil, nil
		}
		handles[s] = list.handles[at]
	}
	return handles, nil
}

func (c *Compaction) estimateJob(v passView, handles map[*segment.Segment]*handle,
	opts EstimateOptions) clean.Job {
	job := clean.Job{
		LogStart: v.LogStart, FirstDirty: v.FirstDirty, Bound: v.Bound,
		AbortedAcrossBound: v.aborted, Producers: v.producers,
		Limits: clean.Limits{MemoryBytes: opts.MemoryBytes},
		Env: clean.Env{
			OpenSidecar: func(_ context.Context, s *segment.Segment,
				_ clean.SidecarOptions) (*keys.Reader,
				error) {
				return c.sidecars.open(handles[s], false)
			},
			Throttle: func(ctx context.Context, n int) error {
				c.sidecars.readBytes.Add(int64(n))
				if opts.Throttle == nil {
					return ctx.Err()
				}
				return opts.Throttle(ctx, n)
			},
		},
	}
	for _, s := range v.segments {
		job.Sources = append(job.Sources, clean.Source{
			Segment: s, NoAbortedTxns: handles[s].AbortedCount() == 0,
		})
	}
	return job
}

// countedGarbage adds up the .dead files of a log that is wholly clean. ok is false if a .dead file
// is not from the last pass. A pass writes these files before it moves the first dirty offset, so a
// segment without a .dead file has no garbage.
func (c *Compaction) countedGarbage(v passView) (bytes int64, ok bool) {
	for _, s := range v.segments {
		content := c.loadDead(s)
		if content == nil {
			continue
		}
		d, err := clean.DecodeDeadFile(content)
		if err != nil || d.Base != s.Base() || d.LogBytes != s.SizeBytes() ||
			d.ComputedThrough > v.Bound || d.Lineage != c.epochBelow(d.ComputedThrough) {
			return 0, false
		}
		bytes += d.DeadBytes
	}
	return bytes, true
}

// deadBytesMax bounds the size of a .dead file that is read: a record takes 7 bytes in it, and a
// sidecar holds 2^30 records at most.
const deadBytesMax = 256 << 20

// loadDead returns the .dead file of a segment, nil if it has no readable one: a pass then computes
// its content again.
func (c *Compaction) loadDead(s *segment.Segment) []byte {
	fsys, name := c.log.env.fs, c.sidecars.path(s.Base(), segment.DeadExtension, "")
	info, err := fsys.Stat(name)
	if err != nil || info.Size() > deadBytesMax {
		return nil
	}
	content, err := fsys.ReadFile(name)
	if err != nil {
		c.log.env.logger.Warn("failed to read a .dead file", "partition", c.log.id, "segment",
			s.Base(), "error", err)
		return nil
	}
	return content
}

// saveDead writes the .dead file of a segment that is in the log; nil content deletes it.
func (c *Compaction) saveDead(s *segment.Segment, content []byte) error {
	l := c.log
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	stopped, handles := l.mu.stopped, l.currentLocked()
	l.mu.Unlock()
	if stopped != nil {
		return stopped
	}
	if _, found := findSegments(handles, []*segment.Segment{s}); !found {
		return nil // retention deleted it
	}
	name := c.sidecars.path(s.Base(), segment.DeadExtension, "")
	if content == nil {
		if err := l.env.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %w", ErrStorage, err)
		}
		return nil
	}
	if err := vfs.WriteFileAtomic(l.env.fs, name, content); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return nil
}
