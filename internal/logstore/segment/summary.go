package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

// ErrOtherFiles is what OpenSealed fails with when the files are not those that were summed up:
// then Open is due.
var ErrOtherFiles = errors.New("the segment's files are not those that were summed up")

// Summary is what Open finds out by reading the files of a sealed segment, and how to tell that
// they are the same files still. A log of a thousand segments that was closed in order is opened by
// it without opening, or reading, any of their files.
type Summary struct {
	Base, Next         int64
	FirstTimestamp     int64 // of the first batch, -1 if there is none
	MaxTimestamp       int64 // -1 if there is no batch
	MaxTimestampOffset int64
	LastIndexed        OffsetEntry // of the offset index; the zero value if it is empty
	Files              [3]FileState
}

// FileState tells whether a file was touched: .log, .index and .timeindex in this order.
type FileState struct {
	SizeBytes int64
	ModTime   time.Time
}

// Summary sums a segment up; ok is false unless all of it is in its files, and durable. It is false
// too if there is a transaction index, each entry of which is looked at when the segment is opened.
func (s *Segment) Summary() (sum Summary, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.broken != nil || s.mu.suffix != "" || s.unfinishedLocked() || s.txns.file != nil {
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
		return Summary{}, false, fmt.Errorf("sum up segment %d: %w", s.base, err)
	}
	return sum, true, nil
}

// states asks the filesystem for the size and the time of each file.
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

// OpenSealed opens a segment by its summary. No file is opened before it is used. It fails with
// ErrOtherFiles when a file has another size or time, or is gone, or the summary does not fit
// together.
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
			return nil, fmt.Errorf("%w: segment %d", ErrOtherFiles, sum.Base)
		}
	}
	v, ok := sum.view()
	if !ok {
		return nil, fmt.Errorf("%w: segment %d: the summary is not one of these sizes",
			ErrOtherFiles, sum.Base)
	}
	s.view.Store(&v)
	s.modTime.Store(&sum.Files[0].ModTime)
	s.data = s.cfg.Handles.Handle(s.pathLocked(LogExtension))
	s.offsets.file = s.cfg.Handles.Handle(s.pathLocked(IndexExtension))
	s.times.file = s.cfg.Handles.Handle(s.pathLocked(TimeIndexExtension))
	s.mu.named = true
	return s, nil
}

// view makes the view; ok is false if the numbers cannot be those of one segment.
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
		// Seal has seen to it that the last entry tells of the largest timestamp.
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
