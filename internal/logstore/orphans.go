package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// removeOrphans removes the segments of rolls that were not completed, and returns the bases of the
// others. A full disk may accept the name of a data file and reject that of its index: the roll
// removes the file and the append fails, but a smaller append may still fit into the old segment.
// If the power fails then, the directory may have kept the empty file, in the middle of the range
// of the segment before it.
//
// An empty segment is kept if the segment before it is intact and ends where the empty one begins:
// then a completed roll created it, or cleaning emptied it. If no file is empty, nothing is read.
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

// dataBytes returns the size of a segment's data file. After a clean shutdown it is in the summary,
// and no file is read.
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

// reaches reports whether a segment has data that ends above an offset, or does not end with a
// complete batch: then neither its end nor any later segment was synced.
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
