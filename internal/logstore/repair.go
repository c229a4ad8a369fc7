package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// repairDirectory completes what a crash interrupted (the table in docs/format/swap.md): a swap is
// reverted or finished, leftovers are removed. It returns the segments' files, by base, including
// those that it removed because they had no .log file. It can be interrupted at any step and
// repeated. An intact directory is listed once: there may be thousands.
func repairDirectory(fsys vfs.FS, dir string) ([]segmentFile, error) {
	files, temporary, err := listDirectory(fsys, dir)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(files, func(f segmentFile) bool { return f.suffix != "" }) {
		if err := revertSwap(fsys, dir); err != nil {
			return nil, err
		}
		if err := finishSwap(fsys, dir); err != nil {
			return nil, err
		}
		if files, err = listSegmentFiles(fsys, dir); err != nil {
			return nil, err
		}
	}
	present := map[int64]bool{}
	for _, base := range basesOf(files) {
		present[base] = true
	}
	orphans, err := removeFiles(fsys, dir, files, func(f segmentFile) bool {
		// A crash loses the part of a spool that was in memory.
		return f.kind == keys.SpoolExtension || !f.isLog() && f.kind != snapshotSuffix &&
			!present[f.base]
	})
	if err == nil && orphans > 0 {
		err = fsys.SyncDir(dir)
	}
	for _, name := range temporary {
		if err == nil {
			if err = fsys.Remove(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
				err = nil // the file is a spool, which was removed above
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("remove leftovers: %w", err)
	}
	return files, nil
}

// basesOf returns the bases of the segments, ascending.
func basesOf(files []segmentFile) []int64 {
	var bases []int64
	for _, f := range files {
		if f.isLog() {
			bases = append(bases, f.base)
		}
	}
	return bases
}

// revertSwap removes files that are marked as deleted, and those of a swap that did not reach its
// commit point: while any .cleaned file exists, no .swap was committed. It removes the files of
// such a swap under either name, because before the commit point the disk may have kept any subset
// of the renames (ADR 0070).
func revertSwap(fsys vfs.FS, dir string) error {
	files, err := listSegmentFiles(fsys, dir)
	if err != nil {
		return err
	}
	uncommitted := slices.ContainsFunc(files,
		func(f segmentFile) bool { return f.suffix == cleanedSuffix })
	isSwap := func(f segmentFile) bool { return uncommitted && f.suffix == swapSuffix }
	isRest := func(f segmentFile) bool {
		return f.suffix == deletedSuffix ||
			f.suffix == cleanedSuffix
	}
	for _, matches := range []func(segmentFile) bool{isSwap, isRest} {
		// The .swap files must be durably removed first: without a .cleaned file they are treated
		// as committed.
		removed, err := removeFiles(fsys, dir, files, matches)
		if err != nil {
			return err
		}
		if removed == 0 {
			continue
		}
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// finishSwap completes a committed swap: it removes the replaced files, and then renames the new
// ones to their final names.
func finishSwap(fsys vfs.FS, dir string) error {
	files, err := listSegmentFiles(fsys, dir)
	if err != nil {
		return err
	}
	from, to, err := swapRange(fsys, dir, files)
	if err != nil {
		return err
	}
	removed, err := removeFiles(fsys, dir, files, func(f segmentFile) bool {
		return f.suffix == "" && f.kind != snapshotSuffix && f.base >= from && f.base < to
	})
	if err != nil {
		return err
	}
	if removed > 0 {
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	renamed := int64(-1)      // base of the segment whose files were renamed last
	for _, f := range files { // by base, .log first
		if f.suffix != swapSuffix {
			continue
		}
		// The rename of each segment is durable before the next: no .swap file may be below a new
		// segment that has its final name (swapRange).
		if renamed >= 0 && renamed != f.base {
			if err := fsys.SyncDir(dir); err != nil {
				return err
			}
		}
		final := segment.Name(f.base, f.kind, "")
		if err := fsys.Rename(filepath.Join(dir, f.name), filepath.Join(dir, final)); err != nil {
			return fmt.Errorf("finish replacing segments: %w", err)
		}
		renamed = f.base
	}
	if renamed < 0 {
		return nil
	}
	return fsys.SyncDir(dir)
}

// swapRange returns the offsets that the .log.swap files cover, and [-1, 0), no segment at all, if
// there are none. The swap replaces the segments without a suffix that begin in this range. None of
// them is a new segment, because the new ones are renamed in ascending order, each durably before
// the next. A replaced segment that begins behind the last new one is not detected: it stays, and
// is cleaned again.
func swapRange(fsys vfs.FS, dir string, files []segmentFile) (from, to int64, err error) {
	from = -1
	for _, f := range files {
		if f.suffix != swapSuffix || !f.isLog() {
			continue
		}
		if from < 0 {
			from = f.base
		}
		next, err := nextOffset(fsys, filepath.Join(dir, f.name), f.base)
		if err != nil {
			return 0, 0, fmt.Errorf("read %s: %w", f.name, err)
		}
		to = max(to, next)
	}
	return from, to, nil
}

// nextOffset reads the batch headers of a data file to its end. The file was sealed and synced
// before the commit point, so anything but complete batches is an error, and the log stays offline
// rather than lose the segments that the swap would replace.
func nextOffset(fsys vfs.FS, name string, base int64) (int64, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // the file was only read
	next := base
	header := make(record.Batch, record.HeaderBytes)
	for position := int64(0); ; {
		n, err := file.ReadAt(header, position)
		if n == 0 && errors.Is(err, io.EOF) {
			return next, nil
		}
		if n < len(header) {
			return 0, fmt.Errorf("batch at %d: %w", position, err)
		}
		size, err := record.PeekSize(header)
		if err != nil {
			return 0, fmt.Errorf("batch at %d: %w", position, err)
		}
		next = header.NextOffset()
		position += int64(size)
	}
}
