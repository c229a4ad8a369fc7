package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"

	"heartwood.dev/heartwood/internal/logstore/leaderepoch"

	"heartwood.dev/heartwood/internal/logstore/producer"
)

// StartAt gives up the whole log and begins anew at an offset, which may lie above or below what
// there was: what a follower does whose leader's log begins above its end (KIP-107). Nothing is
// known of epochs and producers then. It fails as TruncateTo does.
func (l *Log) StartAt(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("%w: start at %d", ErrOffsetOutOfRange, offset)
	}
	l.truncating.Lock()
	defer l.truncating.Unlock()
	return l.restartAt(offset)
}

func (l *Log) restartAt(offset int64) error {
	return l.cut(pendingCut{offset: offset, firstDirty: offset, restart: true}, l.cutAll)
}

// cutAll gives up every segment and begins a new one. The old ones are marked before it is made,
// for it may have the name of one. Without room for it the marks are taken back, and nothing was
// cut.
func (l *Log) cutAll(pending pendingCut, handles []*handle) error {
	afforded, err := l.affordCut(nil, handles)
	if err != nil {
		return fmt.Errorf("%w: begin anew at %d: %w", ErrStorage, pending.offset, err)
	}
	defer afforded.release()
	active, err := l.markAll(pending, handles)
	if err != nil && passes(err) {
		return errors.Join(fmt.Errorf("%w: begin anew at %d: %w", ErrStorage, pending.offset, err),
			l.unmark(handles))
	}
	if err != nil {
		return l.stopCut(err)
	}
	// No snapshot is of the new log, and its epochs are none: without the file a start makes them
	// of its batches.
	err = l.env.fs.Remove(filepath.Join(l.dir, checkpoint.EpochsFile))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = l.dropSnapshots(afforded.files, -1)
	}
	if err != nil {
		return l.stopCut(errors.Join(err, active.Close()))
	}
	l.mu.Lock()
	l.epochs.Store(&leaderepoch.Cache{})
	l.mu.leaderEpoch = leaderepoch.Cache{}.Latest()
	l.mu.Unlock()
	afforded.release() // before any of them is closed
	l.restartShown(pending.offset, handles, active)
	return nil
}

// markAll marks all segments as deleted, for good, and makes the new one, whose name is durable.
func (l *Log) markAll(pending pendingCut, handles []*handle) (*handle, error) {
	for _, h := range slices.Backward(handles) {
		if err := h.Rename(deletedSuffix); err != nil {
			return nil, err
		}
	}
	if err := l.afford(func() error { return l.env.fs.SyncDir(l.dir) }); err != nil {
		return nil, err
	}
	active, err := l.newSegment(pending.offset)
	if err != nil {
		return nil, err
	}
	if err := active.Sync(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: begin anew at %d: %w", ErrStorage, pending.offset,
			err), active.Remove(), active.Close())
	}
	return active, nil
}

// unmark takes back the marks of markAll. What it cannot take back stops the log: a start finds it
// empty.
func (l *Log) unmark(handles []*handle) error {
	for _, h := range handles {
		if err := h.Rename(""); err != nil {
			return l.stopCut(err)
		}
	}
	if err := l.afford(func() error { return l.env.fs.SyncDir(l.dir) }); err != nil {
		return l.stopCut(err)
	}
	return nil
}

// restartShown makes memory the empty log at offset.
func (l *Log) restartShown(offset int64, before []*handle, active *handle) {
	l.mu.Lock()
	l.cutLocked(offset)
	l.lineage.Add(1)
	l.mu.unsealed, l.mu.producers, l.mu.owed, l.mu.firstAppend = nil, producer.State{}, nil,
		time.Time{}
	l.compaction.sidecars.spools.discardAllLocked()
	l.mu.recoveryPoint = offset
	l.synced.Store(offset)
	l.compaction.emptied(offset)
	l.lowerOffsets(offset, offset)
	l.settleDurableLocked()
	for _, h := range before {
		h.doomed.Store(true)
	}
	old := l.publishLocked([]*handle{active})
	l.mu.Unlock()
	old.release()
}
