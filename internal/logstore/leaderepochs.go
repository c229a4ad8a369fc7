package logstore

import (
	"fmt"
	"path/filepath"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/vfs"
)

// leaderEpochs are a log's leader epochs together with the file that stores them. Callers that
// change the epochs hold Log.mu. Recovery does not, because no other goroutine uses the log yet.
// Readers acquire no lock.
type leaderEpochs struct {
	fs  vfs.FS
	dir string
	// cache is stored after its file is durable, so no caller uses an epoch that a crash can
	// revert.
	cache atomic.Pointer[leaderepoch.Cache]
}

// load returns the current epochs.
func (e *leaderEpochs) load() leaderepoch.Cache { return *e.cache.Load() }

// latest returns the latest epoch, which a leader's appends write into their batches.
func (e *leaderEpochs) latest() int32 { return e.load().Latest() }

// save durably writes new epochs, the argument next, to the file. It then replaces the current
// epochs by them.
func (e *leaderEpochs) save(next leaderepoch.Cache) error {
	if err := vfs.WriteFileAtomic(e.fs, filepath.Join(e.dir, checkpoint.EpochsFile),
		checkpoint.EncodeEpochs(next)); err != nil {
		return fmt.Errorf("%w: write leader epochs: %w", ErrStorage, err)
	}
	e.cache.Store(&next)
	return nil
}

// truncateEnd removes the epochs that start at or above the offset end, because the next leader may
// append records of other epochs at those offsets.
func (e *leaderEpochs) truncateEnd(end int64) error {
	epochs := e.load()
	kept := epochs.Below(end)
	if len(kept) == len(epochs) {
		return nil
	}
	return e.save(kept)
}

// truncateFront removes the epochs that end at or below the log start. It writes the file only if
// it removes an epoch. Otherwise only the start offset of the first epoch would change. That change
// affects no lookup at or above the log start, and the next start of the store computes it anyway
// (recovery.install). So it is not worth two syncs under Log.mu.
func (e *leaderEpochs) truncateFront(logStart int64) error {
	epochs := e.load()
	kept := epochs.TruncateFront(logStart)
	if len(kept) == len(epochs) {
		return nil
	}
	return e.save(kept)
}
