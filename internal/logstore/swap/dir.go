package swap

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/vfs"
)

// Dir executes the file operations on the segments of one log: creating, marking as deleted, and
// the steps of a swap. It has no access to the log's state in memory.
type Dir struct {
	FS     vfs.FS
	Path   string
	Config segment.Config
	Logger *slog.Logger
}

// Create creates the files of an empty segment. The names of the files become durable with the next
// flush. Until then a crash may lose the files together with everything that was appended to them.
func (d Dir) Create(base int64, config segment.Config) (*segmentlist.Handle, error) {
	made, err := segment.Create(d.FS, d.Path, base, "", config)
	if err != nil {
		return nil, fmt.Errorf("%w: create segment %d: %w", segmentlist.ErrStorage, base, err)
	}
	return d.HandleOf(made), nil
}

// HandleOf returns the first handle of a segment.
func (d Dir) HandleOf(s *segment.Segment) *segmentlist.Handle {
	return segmentlist.NewHandle(s, d.Logger)
}

// afford calls do, which opens a directory. If the process has no free file descriptor, afford
// first closes idle segment files.
func (d Dir) afford(do func() error) error { return d.Config.Handles.WithDescriptor(do) }

// Sync makes the names of the files in the directory durable.
func (d Dir) Sync() error {
	return d.afford(func() error { return d.FS.SyncDir(d.Path) })
}

// List returns the segment files in the directory.
func (d Dir) List() (files []File, err error) {
	err = d.afford(func() error {
		files, err = List(d.FS, d.Path)
		return err
	})
	return files, err
}

// Commit makes the cleaned segments durable under the suffix .swap. Its last step, a sync of the
// directory, is the commit point.
func (d Dir) Commit(sources, cleaned []*segment.Segment) error {
	if err := d.removeStrays(cleaned); err != nil {
		return err
	}
	// Retention and lag use the modification time of a segment without timestamps. So the cleaned
	// segments get the modification time of the last source.
	modified := sources[len(sources)-1].ModTime()
	for _, s := range cleaned {
		if err := s.SetModTime(modified); err != nil {
			return err
		}
		if err := s.Sync(); err != nil {
			return err
		}
	}
	if err := d.FS.SyncDir(d.Path); err != nil {
		return err
	}
	// As long as any .cleaned file exists on disk, recovery reverts the swap. Before the sync, the
	// disk may keep any subset of these renames. Kafka renames in the same descending order, and
	// Kafka's own recovery relies on this order.
	for _, s := range slices.Backward(cleaned) {
		if err := s.Rename(SwapSuffix); err != nil {
			return err
		}
		if err := d.checkSwapFile(s); err != nil {
			return err
		}
	}
	return d.FS.SyncDir(d.Path)
}

// checkSwapFile compares the size of a file that is about to be committed with the number of bytes
// written to it. The two must be equal, because the sources are deleted after the commit point.
func (d Dir) checkSwapFile(s *segment.Segment) error {
	name := segment.Name(s.Base(), segment.LogExtension, SwapSuffix)
	info, err := d.FS.Stat(filepath.Join(d.Path, name))
	if err == nil && info.Size() != s.SizeBytes() {
		err = fmt.Errorf("file has %d bytes, but %d were written", info.Size(), s.SizeBytes())
	}
	if err != nil {
		return fmt.Errorf("check %s: %w", name, err)
	}
	return nil
}

// removeStrays removes the files that a failed swap or pass has left, except the files of the
// segments in cleaned. If such a .cleaned file remained, recovery would revert the current swap
// even after the swap's sources were renamed.
func (d Dir) removeStrays(cleaned []*segment.Segment) error {
	files, err := List(d.FS, d.Path)
	if err != nil {
		return err
	}
	ours := func(f File) bool {
		return f.Suffix == CleanedSuffix &&
			slices.ContainsFunc(cleaned,
				func(s *segment.Segment) bool { return s.Base() == f.Base })
	}
	swaps, err := RemoveFiles(d.FS, d.Path, files,
		func(f File) bool { return f.Suffix == SwapSuffix })
	if err != nil {
		return err
	}
	// The removal of the .swap files must be durable before the .cleaned files are removed, because
	// the .cleaned files mark the swap as uncommitted.
	if swaps > 0 {
		if err := d.FS.SyncDir(d.Path); err != nil {
			return err
		}
	}
	_, err = RemoveFiles(d.FS, d.Path, files,
		func(f File) bool { return f.Suffix == CleanedSuffix && !ours(f) })
	return err
}

// Finish renames the sources and the cleaned segments after the commit point. If a crash interrupts
// Finish, .swap files exist, but no .cleaned file. Recovery then treats the .swap files as
// committed and finishes the swap (repair.go).
func (d Dir) Finish(sources, cleaned []*segment.Segment) error {
	for _, s := range sources {
		if err := s.Rename(DeletedSuffix); err != nil {
			return err
		}
	}
	if err := d.FS.SyncDir(d.Path); err != nil {
		return err
	}
	for _, s := range cleaned {
		if err := s.Rename(""); err != nil {
			return err
		}
		// Each rename is durable before the next one. Recovery removes files without a suffix in
		// the range of the .swap files, because it treats these files as sources (swapRange). A
		// renamed file must not be among them.
		if err := d.FS.SyncDir(d.Path); err != nil {
			return err
		}
	}
	return nil
}

// Withdraw removes the files of a swap that was not committed. It removes the .swap files first,
// for the same reason as removeStrays.
func (d Dir) Withdraw(cleaned []*segment.Segment) error {
	return errors.Join(d.removeStrays(nil), Discard(cleaned))
}

// PinAll opens all files of the segments. The files stay open until the caller calls unpin.
func PinAll(segments []*segment.Segment) (unpin func(), err error) {
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

// Discard removes the files of segments that never became part of the log, and closes the segments.
func Discard(cleaned []*segment.Segment) error {
	var err error
	for _, s := range cleaned {
		err = errors.Join(err, s.Remove())
	}
	return errors.Join(err, CloseSegments(cleaned))
}

// CloseSegments closes all given segments, even if closing one of them fails.
func CloseSegments(segments []*segment.Segment) error {
	var err error
	for _, s := range segments {
		err = errors.Join(err, s.Close())
	}
	return err
}
