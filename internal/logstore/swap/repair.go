package swap

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

// Repair completes what a crash has interrupted (see the table in docs/internals/format/swap.md):
// it reverts or finishes a swap, and removes leftover files. It can be interrupted at any step and
// repeated. It returns the segment files in the directory, by base offset. The result also contains
// the files that Repair has removed because they had no .log file. An intact directory is listed
// only once, because it may contain thousands of files.
func Repair(fsys vfs.FS, dir string) ([]File, error) {
	files, temporary, err := listDirectory(fsys, dir)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(files, func(f File) bool { return f.Suffix != "" }) {
		if err := revertSwap(fsys, dir); err != nil {
			return nil, err
		}
		if err := finishSwap(fsys, dir); err != nil {
			return nil, err
		}
		if files, err = List(fsys, dir); err != nil {
			return nil, err
		}
	}
	present := map[int64]bool{}
	for _, base := range BasesOf(files) {
		present[base] = true
	}
	orphans, err := RemoveFiles(fsys, dir, files, func(f File) bool {
		// Spools are removed too, because a crash loses the part of a spool that was in memory.
		return f.Kind == keys.SpoolExtension || !f.IsLog() && f.Kind != SnapshotSuffix &&
			!present[f.Base]
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

// BasesOf returns the base offsets of the segments in ascending order.
func BasesOf(files []File) []int64 {
	var bases []int64
	for _, f := range files {
		if f.IsLog() {
			bases = append(bases, f.Base)
		}
	}
	return bases
}

// revertSwap removes the files that are marked as deleted, and the files of a swap that did not
// reach its commit point. As long as any .cleaned file exists, no .swap file is committed.
// revertSwap removes the files of an uncommitted swap under both possible names, because the disk
// may have kept any subset of the renames before the commit point (ADR 0070).
func revertSwap(fsys vfs.FS, dir string) error {
	files, err := List(fsys, dir)
	if err != nil {
		return err
	}
	uncommitted := slices.ContainsFunc(files,
		func(f File) bool { return f.Suffix == CleanedSuffix })
	isSwap := func(f File) bool { return uncommitted && f.Suffix == SwapSuffix }
	isRest := func(f File) bool {
		return f.Suffix == DeletedSuffix ||
			f.Suffix == CleanedSuffix
	}
	for _, matches := range []func(File) bool{isSwap, isRest} {
		// The removal of the .swap files must be durable first. Without a .cleaned file, they would
		// be treated as committed.
		removed, err := RemoveFiles(fsys, dir, files, matches)
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
// files to their final names.
func finishSwap(fsys vfs.FS, dir string) error {
	files, err := List(fsys, dir)
	if err != nil {
		return err
	}
	from, to, err := swapRange(fsys, dir, files)
	if err != nil {
		return err
	}
	removed, err := RemoveFiles(fsys, dir, files, func(f File) bool {
		return f.Suffix == "" && f.Kind != SnapshotSuffix && f.Base >= from && f.Base < to
	})
	if err != nil {
		return err
	}
	if removed > 0 {
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	renamed := int64(-1)      // base offset of the segment whose files were renamed last
	for _, f := range files { // in ascending order of base offsets, the .log file first
		if f.Suffix != SwapSuffix {
			continue
		}
		// The renames of one segment are durable before the next segment is renamed. So no .swap
		// file is below a new segment that already has its final name (swapRange).
		if renamed >= 0 && renamed != f.Base {
			if err := fsys.SyncDir(dir); err != nil {
				return err
			}
		}
		final := segment.Name(f.Base, f.Kind, "")
		if err := fsys.Rename(filepath.Join(dir, f.Name), filepath.Join(dir, final)); err != nil {
			return fmt.Errorf("finish replacing segments: %w", err)
		}
		renamed = f.Base
	}
	if renamed < 0 {
		return nil
	}
	return fsys.SyncDir(dir)
}

// swapRange returns the range of offsets [from, to) that the .log.swap files cover. If there are no
// such files, it returns [-1, 0), which contains no segment. The swap replaces the segments without
// a suffix that begin in this range. None of them is a new segment, because the new segments are
// renamed in ascending order, each durably before the next. A replaced segment that begins above
// the end of the last new segment is not detected. It stays in the log and is cleaned again.
func swapRange(fsys vfs.FS, dir string, files []File) (from, to int64, err error) {
	from = -1
	for _, f := range files {
		if f.Suffix != SwapSuffix || !f.IsLog() {
			continue
		}
		if from < 0 {
			from = f.Base
		}
		next, err := nextOffset(fsys, filepath.Join(dir, f.Name), f.Base)
		if err != nil {
			return 0, 0, fmt.Errorf("read %s: %w", f.Name, err)
		}
		to = max(to, next)
	}
	return from, to, nil
}

// nextOffset reads the batch headers in a data file and returns the offset after the last batch.
// The file was sealed and synced before the commit point, so it must consist of complete batches.
// If it does not, nextOffset fails, and the log stays offline. Otherwise the segments that the swap
// replaces would be lost.
func nextOffset(fsys vfs.FS, name string, base int64) (int64, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return 0, err
	}
	// The file was only read, so an error of Close is irrelevant.
	defer func() { _ = file.Close() }()
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
