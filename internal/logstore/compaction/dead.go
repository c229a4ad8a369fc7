package compaction

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/vfs"
)

// DeadFiles manages the .dead files of a log.
type DeadFiles struct {
	ID     checkpoint.PartitionID
	FS     vfs.FS
	Dir    string
	Logger *slog.Logger
	Keep   func(s *segment.Segment, do func(h *segmentlist.Handle) error) error // see Env
}

// path returns the path of a segment's .dead file.
func (d *DeadFiles) path(base int64) string {
	return filepath.Join(d.Dir, segment.Name(base, segment.DeadExtension, ""))
}

// deadBytesMax is the size above which Load ignores a .dead file, because a damaged file must not
// exhaust the memory. Valid files are smaller: they contain one bit for each record of a key
// sidecar, at most 2^30, and a few bytes for each removable tombstone.
const deadBytesMax = 256 << 20

// Load returns the content of a segment's .dead file, or nil if the file does not exist or cannot
// be read. If it returns nil, a pass recomputes the content.
func (d *DeadFiles) Load(s *segment.Segment) []byte {
	fsys, name := d.FS, d.path(s.Base())
	info, err := fsys.Stat(name)
	if err != nil || info.Size() > deadBytesMax {
		return nil
	}
	content, err := fsys.ReadFile(name)
	if err != nil {
		d.Logger.Warn(
			"failed to read the .dead file of a segment; the next pass rebuilds it",
			"partition", d.ID, "segment", s.Base(), "error", err)
		return nil
	}
	return content
}

// Save writes the .dead file of a segment in the log; nil content deletes the file.
func (d *DeadFiles) Save(s *segment.Segment, content []byte) error {
	return d.Keep(s, func(h *segmentlist.Handle) error {
		defer h.Facts.ForgetDead()
		name := d.path(s.Base())
		if content == nil {
			if err := d.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: %w", segmentlist.ErrStorage, err)
			}
			return nil
		}
		if err := vfs.WriteFileAtomic(d.FS, name, content); err != nil {
			return fmt.Errorf("%w: %w", segmentlist.ErrStorage, err)
		}
		return nil
	})
}

// Summary returns the summary of a segment's .dead file, or nil if no such file was computed for
// the segment's current bytes. The caller checks the lineage.
func (d *DeadFiles) Summary(h *segmentlist.Handle) *clean.DeadSummary {
	size := h.SizeBytes()
	summary := h.Facts.DeadOf(size, func() *clean.DeadSummary { return d.readSummary(h) })
	if summary == nil || summary.Base != h.Base() || summary.LogBytes != size {
		return nil
	}
	if state := h.SidecarState(); state != nil && state.Digest != 0 &&
		state.Digest != summary.Identity {
		return nil
	}
	return summary
}

func (d *DeadFiles) readSummary(h *segmentlist.Handle) *clean.DeadSummary {
	file, err := d.FS.Open(d.path(h.Base()))
	if err != nil {
		return nil
	}
	size, err := file.Size()
	var summary *clean.DeadSummary
	if err == nil {
		summary, err = clean.ReadDeadSummary(file, size)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil
	}
	return summary
}
