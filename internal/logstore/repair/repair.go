package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/logstore/snapshots"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/vfs"
)

// ErrNotDerived is returned for a file that cannot be computed from its segment.
var ErrNotDerived = errors.New("the file cannot be derived from the segment")

// Segment is a log's segment at rest, with the functions and values of the log that a repair uses.
type Segment struct {
	Handle    *segmentlist.Handle // for comparison only; the caller has no reference to it
	Config    segment.Config      // with the topic's index interval
	Files     swap.Dir
	List      *segmentlist.Current
	Snapshots *snapshots.Files
	Sidecars  *sidecars.Set
	Pace      Pace
	// AtRest reports whether the segment is still in the log and at rest. The caller holds Truncating
	// and Maintain.
	AtRest                   func() bool
	Truncating, Maintain, Mu sync.Locker // locks of the log
}

// Replace replaces the derived file with the given extension. The caller has verified the checksums
// of the data file. Replace fails with segmentlist.ErrChanged, and changes nothing, if the segment
// is no longer in the log. A pass that reads the segment meanwhile fails in the same way and is
// retried.
//
// A .dead file also depends on later segments. Replace removes such a file, and the cleaner's next
// pass, which ignores a damaged file anyway, writes another one.
func (s Segment) Replace(ctx context.Context, extension string) error {
	switch extension {
	case segment.KeysExtension:
		held, err := s.hold()
		if err != nil {
			return err
		}
		defer held.Release()
		return s.Sidecars.Rebuild(ctx, s.Handle.Segment, s.Pace.sidecarOptions())
	case segment.DeadExtension:
		return s.commit(func() error {
			s.Handle.Facts.ForgetDead()
			return s.remove(extension)
		})
	}
	content, err := s.derive(ctx, extension)
	if err != nil {
		return err
	}
	return s.commit(func() error { return s.replaceIndex(extension, content) })
}

// hold acquires and returns the list of current segments, which includes the segment to repair.
func (s Segment) hold() (*segmentlist.List, error) {
	list := s.List.Acquire()
	if list == nil {
		return nil, segmentlist.ErrClosed
	}
	if !slices.Contains(list.Handles, s.Handle) {
		list.Release()
		return nil, segmentlist.ErrChanged
	}
	return list, nil
}

// commit calls do while no retention, truncation or swap runs, if the log still has the segment.
func (s Segment) commit(do func() error) error {
	s.Truncating.Lock()
	defer s.Truncating.Unlock()
	s.Maintain.Lock()
	defer s.Maintain.Unlock()
	if !s.AtRest() {
		return segmentlist.ErrChanged
	}
	return do()
}

// derive returns the content that an index should have.
func (s Segment) derive(ctx context.Context, extension string) ([]byte, error) {
	list, err := s.hold()
	if err != nil {
		return nil, err
	}
	defer list.Release()
	base := s.Handle.Base()
	if extension == segment.TxnIndexExtension {
		index := slices.Index(list.Handles, s.Handle)
		_, ended, err := s.Snapshots.StateAt(list.Handles[:index+1], s.Handle.NextOffset(), base)
		if err != nil {
			return nil, fmt.Errorf("derive the transaction index of segment %d: %w", base, err)
		}
		return segment.EncodeAborted(snapshots.Aborted(ended)), nil
	}
	config := s.Config
	config.Handles = nil // so that the data file is read through the paced file system
	offsets, times, err := segment.Derive(pacedFS{s.Files.FS, ctx, s.Pace}, s.Files.Path, base,
		config)
	switch {
	case err != nil:
		return nil, err
	case extension == segment.IndexExtension:
		return offsets, nil
	case extension == segment.TimeIndexExtension:
		return times, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNotDerived, extension)
}

// replaceIndex replaces an index file, and publishes a segment that reads the new file. Readers of
// the previous segment continue with the file that they have opened. The caller holds Maintain.
func (s Segment) replaceIndex(extension string, content []byte) error {
	if !s.Handle.AllWritten() { // entries that did not fit onto a full disk are only in memory
		return ErrNotDerived
	}
	var err error
	if len(content) == 0 && extension == segment.TxnIndexExtension {
		err = s.remove(extension) // a segment without aborted transactions has no such file
	} else {
		err = vfs.WriteFileAtomic(s.Files.FS, s.path(extension), content)
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", s.path(extension), err)
	}
	opened, err := segment.Open(s.Files.FS, s.Files.Path, s.Handle.Base(), s.Config)
	if err != nil {
		return err
	}
	s.Mu.Lock()
	handles := slices.Clone(s.List.Handles())
	handles[slices.Index(handles, s.Handle)] = s.Files.HandleOf(opened)
	old := s.List.Publish(handles)
	s.Mu.Unlock()
	old.Release()
	return nil
}

// remove durably removes a file of the segment, if the file exists.
func (s Segment) remove(extension string) error {
	if err := s.Files.FS.Remove(s.path(extension)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.Files.FS.SyncDir(s.Files.Path)
}

func (s Segment) path(extension string) string {
	return filepath.Join(s.Files.Path, segment.Name(s.Handle.Base(), extension, ""))
}
