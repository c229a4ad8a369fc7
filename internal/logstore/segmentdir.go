package logstore

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// segmentDir does the file operations on the segments of one log: create, mark as deleted, and the
// steps of a swap (docs/format/swap.md). It has no access to the state of the log in memory and
// acquires no lock. Its callers hold Log.maintain, except for create, which a roll calls under
// Log.mu.
type segmentDir struct {
	fs     vfs.FS
	path   string
	config segment.Config
	logger *slog.Logger
}

// create creates the files of an empty segment. Their names become durable with the first flush;
// until then a crash may lose them, and everything that was appended.
func (d segmentDir) create(base int64, config segment.Config) (*handle, error) {
	made, err := segment.Create(d.fs, d.path, base, "", config)
	if err != nil {
		return nil, fmt.Errorf("%w: create segment %d: %w", ErrStorage, base, err)
	}
	return d.handleOf(made), nil
}

// handleOf returns the first handle of a segment. The handle has no reference yet: the first list
// that holds the handle acquires one.
func (d segmentDir) handleOf(s *segment.Segment) *handle {
	return &handle{Segment: s, logger: d.logger}
}

// afford runs an operation that opens a directory. If the process has no file descriptor left, it
// closes idle segment files first.
func (d segmentDir) afford(do func() error) error { return d.config.Handles.WithDescriptor(do) }

// sync makes names in the directory durable.
func (d segmentDir) sync() error {
	return d.afford(func() error { return d.fs.SyncDir(d.path) })
}

// list returns the segment files.
func (d segmentDir) list() (files []segmentFile, err error) {
	err = d.afford(func() error {
		files, err = listSegmentFiles(d.fs, d.path)
		return err
	})
	return files, err
}

// commitSwap makes the new segments durable under the suffix .swap. The sync of the directory at
// its end is the commit point.
func (d segmentDir) commitSwap(sources, cleaned []*segment.Segment) error {
	if err := d.removeStrays(cleaned); err != nil {
		return err
	}
	// Retention and lag use the modification time of a segment without timestamps, so the new
	// segment keeps the modification time of its last source.
	modified := sources[len(sources)-1].ModTime()
	for _, s := range cleaned {
		if err := s.SetModTime(modified); err != nil {
			return err
		}
		if err := s.Sync(); err != nil {
			return err
		}
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return err
	}
	// While any .cleaned file is left on disk, recovery reverts the swap. Until the sync the disk
	// may keep any subset of these renames. The descending order is Kafka's; its own recovery
	// relies on it.
	for _, s := range slices.Backward(cleaned) {
		if err := s.Rename(swapSuffix); err != nil {
			return err
		}
		if err := d.checkSwapFile(s); err != nil {
			return err
		}
	}
	return d.fs.SyncDir(d.path)
}

// checkSwapFile compares the size of a file that is about to be committed with the number of bytes
// written to it, because the sources are deleted behind the commit point.
func (d segmentDir) checkSwapFile(s *segment.Segment) error {
	name := segment.Name(s.Base(), segment.LogExtension, swapSuffix)
	info, err := d.fs.Stat(filepath.Join(d.path, name))
	if err == nil && info.Size() != s.SizeBytes() {
		err = fmt.Errorf("it has %d bytes, %d were written", info.Size(), s.SizeBytes())
	}
	if err != nil {
		return fmt.Errorf("check %s: %w", name, err)
	}
	return nil
}

// removeStrays removes the files that a failed swap or pass has left. Because of a stray .cleaned
// file, recovery would revert this swap after its sources were renamed.
func (d segmentDir) removeStrays(cleaned []*segment.Segment) error {
	files, err := listSegmentFiles(d.fs, d.path)
	if err != nil {
		return err
	}
	ours := func(f segmentFile) bool {
		return f.suffix == cleanedSuffix &&
			slices.ContainsFunc(cleaned,
				func(s *segment.Segment) bool { return s.Base() == f.base })
	}
	swaps, err := removeFiles(d.fs, d.path, files,
		func(f segmentFile) bool { return f.suffix == swapSuffix })
	if err != nil {
		return err
	}
	// The .swap files are durably removed before the .cleaned files, which mark the swap as not
	// committed.
	if swaps > 0 {
		if err := d.fs.SyncDir(d.path); err != nil {
			return err
		}
	}
	_, err = removeFiles(d.fs, d.path, files,
		func(f segmentFile) bool { return f.suffix == cleanedSuffix && !ours(f) })
	return err
}

// finishSwap gives the files their final names, behind the commit point. A crash leaves .swap files
// and no .cleaned file; recovery treats them as committed and finishes the swap (repair.go).
func (d segmentDir) finishSwap(sources, cleaned []*segment.Segment) error {
	for _, s := range sources {
		if err := s.Rename(deletedSuffix); err != nil {
			return err
		}
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return err
	}
	for _, s := range cleaned {
		if err := s.Rename(""); err != nil {
			return err
		}
		// Each rename is durable before the next: recovery treats files without a suffix above a
		// .swap file as sources and removes them (swapRange), and this file is not a source.
		if err := d.fs.SyncDir(d.path); err != nil {
			return err
		}
	}
	return nil
}

// withdrawSwap removes the files of a swap that was not committed: .swap files first, as in
// removeStrays.
func (d segmentDir) withdrawSwap(cleaned []*segment.Segment) error {
	return errors.Join(d.removeStrays(nil), discard(cleaned))
}

// pinAll opens all files of the segments and keeps them open until unpin.
func pinAll(segments []*segment.Segment) (unpin func(), err error) {
	var unpins []func()
	unpin = func() {
		for _, f := range unpins {
			f()
		}
	}
	for _, s := range segments {
		one, err := s.Pin()
		if err != nil {
			unpin()
			return nil, err
		}
		unpins = append(unpins, one)
	}
	return unpin, nil
}

// discard removes and closes segments that never became part of the log.
func discard(cleaned []*segment.Segment) error {
	var err error
	for _, s := range cleaned {
		err = errors.Join(err, s.Remove())
	}
	return errors.Join(err, closeSegments(cleaned))
}

// closeSegments closes all of the segments, also after an error.
func closeSegments(segments []*segment.Segment) error {
	var err error
	for _, s := range segments {
		err = errors.Join(err, s.Close())
	}
	return err
}

// segmentsOf returns the segments of handles.
func segmentsOf(handles []*handle) []*segment.Segment {
	all := make([]*segment.Segment, len(handles))
	for i, h := range handles {
		all[i] = h.Segment
	}
	return all
}
