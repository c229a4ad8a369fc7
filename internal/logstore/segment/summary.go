package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

// ErrFilesChanged is returned by OpenSealed if the files have changed since the Summary was taken.
// The caller then uses Open.
var ErrFilesChanged = errors.New("the files of the segment do not match its summary")

// Summary contains everything that Open would find by reading the files of a sealed segment, and
// the sizes and modification times of these files. With summaries, a cleanly closed log of a
// thousand segments can be opened without opening any of their files.
type Summary struct {
	Base, Next         int64
	FirstTimestamp     int64 // timestamp of the first batch, or -1 if there is no batch
	MaxTimestamp       int64 // -1 if there is no batch
	MaxTimestampOffset int64
	LastIndexed        OffsetEntry  // last entry of the offset index; zero if the index is empty
	Files              [3]FileState // .log, .index and .timeindex
}

// FileState contains the size and the modification time of a file. With these values, OpenSealed
// detects that the file has changed.
type FileState struct {
	SizeBytes int64
	ModTime   time.Time
}

// Summary returns the segment's summary. ok is false if something is not yet written or durable, or
// if the segment has a transaction index, because Open has to validate the entries of this index.
func (s *Segment) Summary() (sum Summary, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.broken != nil || s.mu.suffix != "" || s.needsSealLocked() || s.txns.file != nil {
		return Summary{}, false, nil
	}
	v := s.view.Load()
	sum = Summary{
		Base: s.base, Next: v.next, FirstTimestamp: -1,
		MaxTimestamp: v.maxTimestamp, MaxTimestampOffset: v.maxTimestampOffset,
		LastIndexed: v.offsets.last,
	}
	if v.size > 0 {
		sum.FirstTimestamp = v.firstTimestamp
	}
	if sum.Files, err = s.states(); err != nil {
		return Summary{}, false, fmt.Errorf("summarize segment %d: %w", s.base, err)
	}
	return sum, true, nil
}

// states returns the current state of each file.
func (s *Segment) states() (states [3]FileState, err error) {
	for i, extension := range extensions[:len(states)] {
		info, err := s.fsys.Stat(filepath.Join(s.dir, Name(s.base, extension, "")))
		if err != nil {
			return states, err
		}
		states[i] = FileState{info.Size(), info.ModTime()}
	}
	return states, nil
}

// OpenSealed opens a segment by its summary. Files are opened when they are first used. It fails
// with ErrFilesChanged if a file does not exist or has another size or modification time, or if the
// summary is inconsistent.
func OpenSealed(fsys vfs.FS, dir string, sum Summary, cfg Config) (*Segment, error) {
	s := newSegment(fsys, dir, sum.Base, cfg)
	states, err := s.states()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open segment %d: %w", sum.Base, err)
	}
	for i := range states {
		same := states[i].SizeBytes == sum.Files[i].SizeBytes &&
			states[i].ModTime.Equal(sum.Files[i].ModTime)
		if err != nil || !same {
			return nil, fmt.Errorf("%w: segment %d", ErrFilesChanged, sum.Base)
		}
	}
	v, ok := sum.view()
	if !ok {
		return nil, fmt.Errorf("%w: segment %d: inconsistent summary",
			ErrFilesChanged, sum.Base)
	}
	s.view.Store(&v)
	s.modTime.Store(&sum.Files[0].ModTime)
	s.data = s.cfg.Handles.Handle(s.pathLocked(LogExtension))
	s.offsets.file = s.cfg.Handles.Handle(s.pathLocked(IndexExtension))
	s.times.file = s.cfg.Handles.Handle(s.pathLocked(TimeIndexExtension))
	s.mu.named = true
	return s, nil
}

// view builds the view of the segment. ok is false if the summary is inconsistent.
func (sum Summary) view() (v view, ok bool) {
	v = emptyView(sum.Base)
	v.size, v.next = sum.Files[0].SizeBytes, sum.Next
	v.firstTimestamp, v.maxTimestamp, v.maxTimestampOffset = sum.FirstTimestamp, sum.MaxTimestamp,
		sum.MaxTimestampOffset
	offsetBytes, timeBytes := sum.Files[1].SizeBytes, sum.Files[2].SizeBytes
	v.offsets = entries[OffsetEntry]{written: int(offsetBytes / OffsetEntryBytes),
		last: sum.LastIndexed}
	v.times = entries[TimeEntry]{written: int(timeBytes / TimeEntryBytes)}
	if v.times.written > 0 {
		// The last entry is the one that Seal has added for the largest timestamp.
		v.times.last = TimeEntry{Timestamp: sum.MaxTimestamp,
			Relative: int32(sum.MaxTimestampOffset - sum.Base)}
	}
	whole := offsetBytes%OffsetEntryBytes == 0 && timeBytes%TimeEntryBytes == 0
	empty := v.size == 0
	return v, whole && empty == (sum.Next == sum.Base) && sum.Next >= sum.Base &&
		int64(sum.LastIndexed.Position) <= v.size && sum.LastIndexed.Relative >= 0 &&
		sum.LastIndexed.Position >= 0 &&
		(empty || sum.MaxTimestampOffset >= sum.Base && sum.MaxTimestampOffset < sum.Next) &&
		(timeBytes > 0) == (sum.MaxTimestamp >= 0)
}
