package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// removeOrphans removes the empty segments that an interrupted roll left, and returns the base
// offsets of the other segments. Such a segment arises as follows. A full disk accepts the name of
// a data file but not the name of its index file. The roll then removes the data file, and the
// append fails. A smaller append may still fit into the old segment. If the power fails before the
// removal is durable, the directory contains the empty file again, at an offset inside the old
// segment.
//
// An empty segment is kept if the segment before it is intact and does not extend above the base
// offset of the empty one. In this case a completed roll created the empty segment, or cleaning
// emptied it. If no file is empty, removeOrphans reads no file.
func (r *recovery) removeOrphans(bases []int64) ([]int64, error) {
	kept := bases[:0:0]
	full := -1 // index of the last kept segment with data
	for _, base := range bases {
		orphan := false
		size, err := r.dataBytes(base)
		if err == nil && size == 0 && full >= 0 {
			orphan, err = r.reaches(kept[full], base)
		}
		if err == nil && orphan {
			r.log.env.logger.Warn("segment of an interrupted roll removed", "partition", r.log.id,
				"segment", base)
			err = segment.RemoveFiles(r.log.env.fs, r.log.dir, base, "")
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
	r.files = slices.DeleteFunc(r.files, func(f segmentFile) bool {
		return f.kind != snapshotSuffix && slices.Contains(bases, f.base) &&
			!slices.Contains(kept, f.base)
	})
	return kept, r.log.env.fs.SyncDir(r.log.dir)
}

// dataBytes returns the size of a segment's data file. After a clean shutdown the summary contains
// the size, so no file is read.
func (r *recovery) dataBytes(base int64) (int64, error) {
	if i, found := r.summaryOf(base); found {
		return r.closed.Segments[i].Files[0].SizeBytes, nil
	}
	info, err := r.log.env.fs.Stat(filepath.Join(r.log.dir,
		segment.Name(base, segment.LogExtension, "")))
	if err != nil {
		return 0, fmt.Errorf("stat segment %d: %w", base, err)
	}
	return info.Size(), nil
}

// reaches reports whether a segment contains data above an offset, or does not end with a complete
// batch. In the second case neither the end of this segment nor any later segment was synced.
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
