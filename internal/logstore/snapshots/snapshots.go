package snapshots

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// snapshotsKept is the number of producer snapshots at or below the recovery point that a log keeps
// for recovery: the newest snapshot, and one more in case the newest is damaged. Two other kinds of
// snapshots are kept too. As in Kafka, a log keeps the snapshot at the base offset of each segment,
// because a truncation rebuilds the producer state from it. A log also keeps the snapshots above
// the recovery point on disk, because recovery scans from an offset below them.
const snapshotsKept = 2

// Files manages the producer snapshot files of a log, <offset>.snapshot.
type Files struct {
	dir swap.Dir
	// pending is a snapshot that could not be written because the disk was full; nil if there is no
	// such snapshot.
	pending *snapshot
}

// snapshot is the content of a snapshot file.
type snapshot struct {
	offset  int64 // content is the producer state at this offset
	content []byte
}

// New returns the snapshot files in a directory. It accesses no file.
func New(dir swap.Dir) Files { return Files{dir: dir} }

// ForgetPending drops a snapshot that could not be written, because the snapshot is no longer
// valid.
func (p *Files) ForgetPending() { p.pending = nil }

// Write durably writes a snapshot.
func (p *Files) Write(offset int64, content []byte) error {
	name := filepath.Join(p.dir.Path, segment.Name(offset, swap.SnapshotSuffix, ""))
	return vfs.WriteFileAtomic(p.dir.FS, name, content)
}

// Remove durably removes a snapshot.
func (p *Files) Remove(offset int64) error {
	name := filepath.Join(p.dir.Path, segment.Name(offset, swap.SnapshotSuffix, ""))
	if err := p.dir.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return p.dir.Sync()
}

// newest loads the newest usable snapshot at or below the offset limit. It ignores snapshots below
// first, the offset at which the data of the log begins (see recovery.loadSnapshot). from is the
// offset of the loaded snapshot, or 0 if there is none. newest changes no file.
func (p *Files) newest(first, limit int64) (from int64, state producer.State,
	err error) {
	files, err := swap.List(p.dir.FS, p.dir.Path)
	if err != nil {
		return 0, producer.State{}, err
	}
	return p.newestOf(files, first, limit)
}

// newestOf is like newest, but uses files that were already listed.
func (p *Files) newestOf(files []swap.File, first, limit int64) (from int64,
	state producer.State, err error) {
	for _, f := range slices.Backward(files) {
		if f.Kind != swap.SnapshotSuffix || f.Suffix != "" || f.Base < first || f.Base > limit {
			continue
		}
		content, err := p.dir.FS.ReadFile(filepath.Join(p.dir.Path, f.Name))
		if err != nil {
			return 0, producer.State{}, fmt.Errorf("read producer snapshot: %w", err)
		}
		if state, err := producer.Decode(content, f.Base); err == nil {
			return f.Base, state, nil
		}
	}
	return 0, producer.State{}, nil
}

// StateAt rebuilds the producer state at an offset at which a batch begins or the log ends. It uses
// the newest usable snapshot at or below both offset and since, and the batches from this snapshot
// to offset. ended contains the transactions whose marker is in these batches, at or above since.
func (p *Files) StateAt(handles []*segmentlist.Handle, offset,
	since int64) (state producer.State,
	ended []producer.EndedTxn, err error) {
	from, state, err := p.newest(handles[0].Base(), min(offset, since))
	if err != nil {
		return state, nil, err
	}
	for i, h := range handles {
		if h.Base() >= offset || i+1 < len(handles) && handles[i+1].Base() <= from {
			continue
		}
		position, err := h.Position(from)
		if err != nil {
			return state, nil, err
		}
		err = h.EachHeader(position, func(header segment.Header) (bool, error) {
			if header.BaseOffset() >= offset {
				return false, nil
			}
			if header.BaseOffset() < from {
				return true, nil // the snapshot includes this batch
			}
			one, err := Replay(&state, h, header, h.ModTime())
			if one != nil && one.LastOffset >= since {
				ended = append(ended, *one)
			}
			return true, err
		})
		if err != nil {
			return state, nil, fmt.Errorf("replay segment %d: %w", h.Base(), err)
		}
	}
	return state, ended, nil
}

// EnsureAt ensures that a snapshot at a segment's base offset exists, because the records below
// this offset will change or be deleted. A later truncation to an offset above it rebuilds the
// producer state from this snapshot. Usually the roll has already written the snapshot. The
// snapshot is missing if recovery has scanned the segment, because recovery removes such snapshots.
func (p *Files) EnsureAt(handles []*segmentlist.Handle, base int64) error {
	files, err := swap.List(p.dir.FS, p.dir.Path)
	if err != nil {
		return err
	}
	missing, err := p.missingAt(files, handles, base)
	if err != nil || missing == nil {
		return err
	}
	return p.writeMissing(missing)
}

// missingAt returns the snapshot that has to be written at the base offset of a segment. It returns
// nil if a usable file exists, or if there is no producer state at this offset. files are the
// segment files in the directory.
func (p *Files) missingAt(files []swap.File, handles []*segmentlist.Handle,
	base int64) (*snapshot, error) {
	if from, _, err := p.newestOf(files, base, base); err == nil && from == base && base > 0 {
		return nil, nil
	}
	state, _, err := p.StateAt(handles, base, base)
	if err != nil {
		return nil, fmt.Errorf("%w: producer state at %d: %w", segmentlist.ErrStorage, base, err)
	}
	if state.Len() == 0 {
		return nil, nil
	}
	return &snapshot{base, state.Encode(base)}, nil
}

// writeMissing writes the snapshot that missingAt returned.
func (p *Files) writeMissing(missing *snapshot) error {
	if err := p.Write(missing.offset, missing.content); err != nil {
		return fmt.Errorf("%w: write producer snapshot at %d: %w", segmentlist.ErrStorage, missing.offset,
			err)
	}
	return nil
}

// EnsureForDeletion is called before the first count segments in handles are deleted. It ensures
// that a snapshot exists at each offset at which the log may begin afterwards. After a complete
// deletion the log begins at the first remaining segment. After a crash only some of the segments
// may be deleted, so the log may also begin at any of these segments except the first. Recovery
// uses no snapshot above the segment at which its scan begins.
//
// If the disk is full, EnsureForDeletion writes no further snapshots and succeeds. It stores the
// snapshot at the first remaining segment's base offset in the field pending. Deleting the segments
// frees space for writing it later.
func (p *Files) EnsureForDeletion(handles []*segmentlist.Handle, count int) error {
	files, err := swap.List(p.dir.FS, p.dir.Path)
	if err != nil {
		return err
	}
	full := false
	for i, h := range handles[1 : count+1] {
		if last := i+1 == count; full && !last {
			continue
		}
		missing, err := p.missingAt(files, handles, h.Base())
		if err != nil {
			return err
		}
		if missing == nil {
			continue
		}
		err = p.writeMissing(missing)
		switch {
		case errors.Is(err, syscall.ENOSPC):
			full, p.pending = true, missing
		case err != nil:
			return err
		}
	}
	return nil
}

// WritePending writes a snapshot that could not be written because the disk was full. first is the
// base offset of the log's first segment.
//
// Until the snapshot is written, a crash loses the state of the producers whose batches are all
// deleted. The log then accepts the next batch of such a producer with any sequence number, as
// after the producer has expired. There is one exception: if a transaction marker of the producer
// arrives before the batch, the batch must have sequence number 0, as in Kafka. Clients recover
// from that rejection with a higher producer epoch (KIP-360).
func (p *Files) WritePending(first int64) error {
	if p.pending == nil {
		return nil
	}
	if first <= p.pending.offset { // otherwise the records that the snapshot describes are deleted
		err := p.Write(p.pending.offset, p.pending.content)
		if errors.Is(err, syscall.ENOSPC) {
			return nil
		}
		p.pending = nil
		return err
	}
	p.pending = nil
	return nil
}

// RemoveAbove durably removes the snapshots above an offset. files are the segment files in the
// directory.
func (p *Files) RemoveAbove(files []swap.File, offset int64) error {
	_, err := swap.RemoveFiles(p.dir.FS, p.dir.Path, files,
		func(f swap.File) bool { return f.Kind == swap.SnapshotSuffix && f.Base > offset })
	if err != nil {
		return err
	}
	return p.dir.Sync()
}

// Prune removes the snapshots that are no longer needed. It keeps the snapshots above limit, the
// newest snapshotsKept snapshots at or below limit, and the snapshots at base offsets of segments.
// The producer state at an offset does not depend on how the log is divided into segments, so
// cleaning and retention do not have to consider snapshots.
func (p *Files) Prune(handles []*segmentlist.Handle, limit int64) error {
	files, err := swap.List(p.dir.FS, p.dir.Path)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files,
		func(f swap.File) bool { return f.Kind != swap.SnapshotSuffix || f.Base > limit })
	_, err = swap.RemoveFiles(p.dir.FS, p.dir.Path, files[:max(len(files)-snapshotsKept, 0)],
		func(f swap.File) bool {
			_, found := slices.BinarySearchFunc(handles, f.Base,
				func(h *segmentlist.Handle, base int64) int { return cmp.Compare(h.Base(), base) })
			return !found
		})
	return err
}

// Replay applies a batch to the producer state, after the batch's header was read. It reads a
// control batch completely, because only the record in the batch shows whether the transaction was
// committed or aborted.
func Replay(state *producer.State, h *segmentlist.Handle, header segment.Header,
	seen time.Time) (ended *producer.EndedTxn, err error) {
	batch := header.Batch
	if batch.Control() && batch.ProducerID() >= 0 {
		if header.SizeBytes > controlBytesMax {
			return nil, fmt.Errorf("control batch at offset %d has %d bytes", batch.BaseOffset(),
				header.SizeBytes)
		}
		if batch, err = readBatch(h, header); err != nil {
			return nil, err
		}
	}
	return state.Update(batch, seen)
}

// controlBytesMax is the maximum size of a control batch that is read into memory. Real control
// batches take about eighty bytes.
const controlBytesMax = 1 << 20

// readBatch reads a whole batch into memory. HeaderAt has already checked that the batch does not
// extend beyond the file.
func readBatch(h *segmentlist.Handle, header segment.Header) (record.Batch, error) {
	batch := make(record.Batch, header.SizeBytes)
	if _, err := h.File().ReadAt(batch, header.Position); err != nil {
		return nil, fmt.Errorf("read batch at %d of segment %d: %w", header.Position, h.Base(), err)
	}
	return batch, nil
}

// Aborted returns the aborted transactions among the given ended transactions.
func Aborted(ended []producer.EndedTxn) (aborted []segment.AbortedTxn) {
	for _, e := range ended {
		if e.Aborted {
			aborted = append(aborted, e.AbortedTxn)
		}
	}
	return aborted
}
