package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// snapshotsKept is how many producer snapshots a log keeps of those that recovery may load: the
// newest, and one more in case it is damaged. Those at the base of a segment are kept too, as in
// Kafka: a truncation rebuilds the producer state from one. Snapshots above the recovery point on
// disk are kept too, because recovery scans from below them.
const snapshotsKept = 2

// producerSnapshots are the files <offset>.snapshot of a log. Log.maintain guards them, except in
// recovery, which owns the log.
type producerSnapshots struct {
	dir segmentDir
	// pending is a snapshot that could not be written because the disk was full; nil if there is
	// none.
	pending *producerSnapshot
}

// producerSnapshot is the content of a snapshot file.
type producerSnapshot struct {
	offset  int64 // the offset as of which content has the producer state
	content []byte
}

// write durably writes a snapshot.
func (p *producerSnapshots) write(offset int64, content []byte) error {
	name := filepath.Join(p.dir.path, segment.Name(offset, snapshotSuffix, ""))
	return vfs.WriteFileAtomic(p.dir.fs, name, content)
}

// newest loads the newest usable snapshot at or below limit, and not below first, where the data of
// the log begins (see recovery.loadSnapshot). from is its offset, 0 if there is none. It changes no
// file.
func (p *producerSnapshots) newest(first, limit int64) (from int64, state producer.State,
	err error) {
	files, err := listSegmentFiles(p.dir.fs, p.dir.path)
	if err != nil {
		return 0, producer.State{}, err
	}
	return p.newestOf(files, first, limit)
}

// newestOf does the same as newest, on files that were already listed.
func (p *producerSnapshots) newestOf(files []segmentFile, first, limit int64) (from int64,
	state producer.State, err error) {
	for _, f := range slices.Backward(files) {
		if f.kind != snapshotSuffix || f.suffix != "" || f.base < first || f.base > limit {
			continue
		}
		content, err := p.dir.fs.ReadFile(filepath.Join(p.dir.path, f.name))
		if err != nil {
			return 0, producer.State{}, fmt.Errorf("read producer snapshot: %w", err)
		}
		if state, err := producer.Decode(content, f.base); err == nil {
			return f.base, state, nil
		}
	}
	return 0, producer.State{}, nil
}

// stateAt rebuilds the producer state as of an offset at which a batch begins or the log ends. It
// uses the newest usable snapshot at or below min(offset, since), and the batches behind that
// snapshot. ended are the transactions that ended in between with a marker at or above since. It
// reads only batches below the offset.
func (p *producerSnapshots) stateAt(handles []*handle, offset, since int64) (state producer.State,
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
		err = h.eachHeader(position, func(header segment.Header) (bool, error) {
			if header.BaseOffset() >= offset {
				return false, nil
			}
			if header.BaseOffset() < from {
				return true, nil // the snapshot includes this batch
			}
			one, err := replayHeader(&state, h, header, h.ModTime())
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

// ensureAt makes sure that there is a snapshot at the base of a segment: the records below the base
// change or are deleted, and a later truncation to an offset above the base rebuilds the producer
// state from this snapshot. Usually the roll has written the snapshot; recovery removes the
// snapshots of the segments that it scans.
func (p *producerSnapshots) ensureAt(handles []*handle, base int64) error {
	files, err := listSegmentFiles(p.dir.fs, p.dir.path)
	if err != nil {
		return err
	}
	missing, err := p.missingAt(files, handles, base)
	if err != nil || missing == nil {
		return err
	}
	return p.writeMissing(missing)
}

// missingAt returns the snapshot at the base of a segment; nil if its file is usable, or if no
// producer is known there. files are those of the directory.
func (p *producerSnapshots) missingAt(files []segmentFile, handles []*handle,
	base int64) (*producerSnapshot, error) {
	if from, _, err := p.newestOf(files, base, base); err == nil && from == base && base > 0 {
		return nil, nil
	}
	state, _, err := p.stateAt(handles, base, base)
	if err != nil {
		return nil, fmt.Errorf("%w: producer state at %d: %w", ErrStorage, base, err)
	}
	if state.Len() == 0 {
		return nil, nil
	}
	return &producerSnapshot{base, state.Encode(base)}, nil
}

// writeMissing writes a snapshot.
func (p *producerSnapshots) writeMissing(missing *producerSnapshot) error {
	if err := p.write(missing.offset, missing.content); err != nil {
		return fmt.Errorf("%w: write producer snapshot at %d: %w", ErrStorage, missing.offset, err)
	}
	return nil
}

// ensureForDeletion makes sure, before the first count segments are deleted, that there is a
// snapshot wherever the log may begin afterwards: at the base of the first segment that stays, and,
// because a crash may delete only some of them, at the base of each but the first that is deleted.
// Recovery uses no snapshot above the segment at which its scan begins. On a full disk it returns
// without writing the snapshots, and keeps the one at the base of the first segment that stays for
// writePending: deleting segments makes room for it.
func (p *producerSnapshots) ensureForDeletion(handles []*handle, count int) error {
	files, err := listSegmentFiles(p.dir.fs, p.dir.path)
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

// writePending writes the snapshot that could not be written because the disk was full; first is
// the base of the log's first segment.
//
// Until it is written, a crash loses the state of producers whose batches are all deleted. Their
// next batch is then accepted whatever its sequence, as after they expired; but a producer whose
// transaction marker arrives first is known by that marker alone, and must begin at sequence 0, as
// in Kafka. Clients recover from that rejection by bumping their epoch (KIP-360).
func (p *producerSnapshots) writePending(first int64) error {
	if p.pending == nil {
		return nil
	}
	if first <= p.pending.offset { // otherwise the records that the snapshot describes are deleted
		err := p.write(p.pending.offset, p.pending.content)
		if errors.Is(err, syscall.ENOSPC) {
			return nil
		}
		p.pending = nil
		return err
	}
	p.pending = nil
	return nil
}

// removeAbove durably removes the snapshots above an offset. files are those of the directory.
func (p *producerSnapshots) removeAbove(files []segmentFile, offset int64) error {
	_, err := removeFiles(p.dir.fs, p.dir.path, files,
		func(f segmentFile) bool { return f.kind == snapshotSuffix && f.base > offset })
	if err != nil {
		return err
	}
	return p.dir.sync()
}

// prune removes the snapshots that are not needed any more: it keeps those above limit, the newest
// ones at or below it, and those at the base of a segment. The state at an offset does not depend
// on segments, so cleaning and retention need not consider snapshots.
func (p *producerSnapshots) prune(handles []*handle, limit int64) error {
	files, err := listSegmentFiles(p.dir.fs, p.dir.path)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files,
		func(f segmentFile) bool { return f.kind != snapshotSuffix || f.base > limit })
	_, err = removeFiles(p.dir.fs, p.dir.path, files[:max(len(files)-snapshotsKept, 0)],
		func(f segmentFile) bool {
			return !slices.ContainsFunc(handles, func(h *handle) bool { return h.Base() == f.base })
		})
	return err
}
