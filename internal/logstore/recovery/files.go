package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// openSegment opens a segment that was closed cleanly or is below the recovery point. If the
// segment has a summary and its files have not changed, the summary replaces most reads. Otherwise
// openSegment reads the ends of the segment's files.
func (r *recovery) openSegment(base int64) (*segment.Segment, error) {
	if i, found := r.summaryOf(base); found {
		s, err := segment.OpenSealed(r.FS, r.Dir, r.Closed.Segments[i],
			r.Segments)
		if !errors.Is(err, segment.ErrFilesChanged) {
			return s, err
		}
		r.Logger.Debug("segment changed since it was summarized", "partition", r.ID,
			"segment", base)
	}
	return segment.Open(r.FS, r.Dir, base, r.Segments)
}

// openHandle opens a segment that an earlier process has written. If its data file is no sequence
// of batches and other segments follow it, whose base offsets are later, the segment is opened as
// far as it can be read. The scrub replaces its records by those of another replica; until then,
// reads of the missing offsets fail.
func (r *recovery) openHandle(base int64, later []int64) (*segmentlist.Handle, error) {
	s, err := r.openSegment(base)
	damaged := len(later) > 0 && errors.Is(err, record.ErrCorrupt)
	if damaged {
		r.Logger.Error("segment is damaged", "partition", r.ID, "segment", base, "error", err)
		s, err = segment.OpenDamaged(r.FS, r.Dir, base, later[0], r.Segments)
	}
	if err != nil {
		return nil, err
	}
	handle := r.dir.HandleOf(s)
	handle.SetUnverified()
	handle.Damaged.Store(damaged)
	return handle, nil
}

// summaryOf returns the index of a segment's summary in Closed.Segments.
func (r *recovery) summaryOf(base int64) (index int, found bool) {
	return slices.BinarySearchFunc(r.Closed.Segments, base,
		func(sum segment.Summary, base int64) int { return cmp.Compare(sum.Base, base) })
}

// isTruncated reports whether a segment's data file is shorter than after the clean shutdown. Such
// a file may end within a batch, and only a scan removes the incomplete batch.
func (r *recovery) isTruncated(base int64) bool {
	i, found := r.summaryOf(base)
	if !found {
		return false
	}
	info, err := r.FS.Stat(filepath.Join(r.Dir,
		segment.Name(base, segment.LogExtension, "")))
	return err == nil && info.Size() < r.Closed.Segments[i].Files[0].SizeBytes
}

// refuseOtherFormats fails if a segment's first records have another message format than v2.
// recovery calls it before it changes a file. The other records were checked before a broker first
// used the log (refuseForeign), and a scan also refuses other formats (segment.Recover). Segments
// that have not changed since a clean shutdown are not read.
func (r *recovery) refuseOtherFormats() error {
	files, err := swap.List(r.FS, r.Dir)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f swap.File) bool {
		_, found := r.summaryOf(f.Base)
		return found && f.Suffix == ""
	})
	return CheckFormat(r.FS, r.Dir, files, true)
}

// CheckFormat fails if a data file contains records in another message format than v2. If firstOnly
// is set, it reads only the first batch of each file, otherwise all headers. It also checks the
// files of a swap that recovery may complete, but not files that recovery only removes.
func CheckFormat(fsys vfs.FS, dir string, files []swap.File, firstOnly bool) error {
	for _, f := range files {
		if !f.IsLog() || f.Suffix != "" && f.Suffix != swap.SwapSuffix {
			continue
		}
		if err := checkDataFile(fsys, filepath.Join(dir, f.Name), f.Base, firstOnly); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

func checkDataFile(fsys vfs.FS, name string, base int64, firstOnly bool) error {
	file, err := fsys.Open(name)
	if err != nil {
		return err
	}
	// The file was only read, so an error of Close is irrelevant.
	defer func() { _ = file.Close() }()
	size, err := file.Size()
	if err != nil {
		return err
	}
	return record.FindOtherFormat(file, 0, size, base, firstOnly)
}

// removeOrphans removes the empty segments that an interrupted roll left, and returns the base
// offsets of the other segments. Such a segment arises as follows: a full disk accepts the name of
// a data file but not the name of the segment's index file. The roll then removes the data file,
// and the append fails. A smaller append may still fit into the old segment. If the power fails
// before the removal is durable, the directory contains the empty file again, at an offset inside
// the old segment.
//
// An empty segment is kept if the preceding segment is intact and does not extend above the empty
// segment's base offset. In this case a completed roll created the empty segment, or cleaning
// emptied it. If no file is empty, removeOrphans reads no file.
func (r *recovery) removeOrphans(bases []int64) ([]int64, error) {
	kept := bases[:0:0]
	full := -1 // index of the last kept segment that has data
	for _, base := range bases {
		orphan := false
		size, err := r.dataBytes(base)
		if err == nil && size == 0 && full >= 0 {
			orphan, err = r.reaches(kept[full], base)
		}
		if err == nil && orphan {
			r.Logger.Warn("segment of an interrupted roll removed", "partition", r.ID,
				"segment", base)
			err = segment.RemoveFiles(r.FS, r.Dir, base, "")
		}
		if err != nil {
			return nil, err
		}
		if orphan {
			continue
		}
		kept = append(kept, base)
		if size > 0 {
			full = len(kept) - 1
		}
	}
	if len(kept) == len(bases) {
		return bases, nil
	}
	r.files = slices.DeleteFunc(r.files, func(f swap.File) bool {
		return f.Kind != swap.SnapshotSuffix && slices.Contains(bases, f.Base) &&
			!slices.Contains(kept, f.Base)
	})
	return kept, r.FS.SyncDir(r.Dir)
}

// dataBytes returns the size of a segment's data file. After a clean shutdown the summary contains
// the size, so dataBytes reads no file.
func (r *recovery) dataBytes(base int64) (int64, error) {
	if i, found := r.summaryOf(base); found {
		return r.Closed.Segments[i].Files[0].SizeBytes, nil
	}
	info, err := r.FS.Stat(filepath.Join(r.Dir,
		segment.Name(base, segment.LogExtension, "")))
	if err != nil {
		return 0, fmt.Errorf("stat segment %d: %w", base, err)
	}
	return info.Size(), nil
}

// reaches reports whether a segment contains data above an offset, or does not end with a complete
// batch. If the segment does not end with a complete batch, neither its end nor any later segment
// was synced.
func (r *recovery) reaches(base, offset int64) (bool, error) {
	s, err := r.openSegment(base)
	if errors.Is(err, record.ErrCorrupt) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return s.NextOffset() > offset, s.Close()
}
