// Package epochfile keeps a log's leader epochs and the file that stores them (File).
//
// # Locks
//
// A File acquires locks of its log in this order: Log.maintain, File.writing, Log.mu. The file is
// written without Log.mu, except by a truncation, and when the log start passes the end of an
// epoch.
package epochfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/fault"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/vfs"
)

// Delay is the minimum age of a leader epoch in memory before the store writes it to the log's
// epoch file. When a broker fails, hundreds of logs begin an epoch at once: their files are written
// after the failover, and an epoch that is soon replaced by another one is never written.
const Delay = 30 * time.Second

// File contains a log's leader epochs and manages the file that stores them.
//
// A new epoch is first added only in memory, and the file is written later (ADR 0252). Until then
// the recovery point on disk is at or below the start of the epoch:
//
//	recovery point on disk <= unsavedFrom
//
// So a start of the store scans all batches of the epoch, which contain its number, and the cleaner
// removes none of these batches. An epoch without batches that is not in the file is lost in a
// crash.
//
// Epochs are removed from the file before other records can be appended at their offsets.
type File struct {
	FS  vfs.FS
	Dir string
	// Maintain and Mu are locks of the log; Fault is the log's state.
	Maintain, Mu sync.Locker
	Fault        *fault.State

	// cache contains the epochs. It changes under Log.mu, except in recovery, when no other
	// goroutine uses the log yet. Readers acquire no lock.
	cache atomic.Pointer[leaderepoch.Cache]
	// writing is held while the file changes. It is acquired before Log.mu.
	writing sync.Mutex
	// saved is the content of the file. All epochs in cache that are later than saved's latest
	// epoch are unsaved. Guarded by Log.mu.
	saved leaderepoch.Cache
	// failed is set if the last write of the file failed. After a crash the file may then have the
	// old or the new content. Guarded by writing.
	failed bool
	// unsavedSince is the time at which a round of maintenance first found unsaved epochs; zero if
	// there are none. Guarded by Log.mu.
	unsavedSince time.Time
}

// Load returns the current epochs.
func (e *File) Load() leaderepoch.Cache { return *e.cache.Load() }

// Latest returns the latest epoch, which a leader writes into the batches that it appends.
func (e *File) Latest() int32 { return e.Load().Latest() }

// AssignLocked adds a new epoch in memory. The caller holds Log.mu.
func (e *File) AssignLocked(epoch int32, start int64) {
	next := e.Load().Assign(epoch, start)
	e.cache.Store(&next)
}

// UnsavedFromLocked returns the start of the first epoch that is not in the file, or
// math.MaxInt64. The caller holds Log.mu.
func (e *File) UnsavedFromLocked() int64 {
	for _, entry := range e.Load() {
		if entry.Epoch > e.saved.Latest() {
			return entry.Start
		}
	}
	return math.MaxInt64
}

// write durably replaces the file. The caller holds writing.
func (e *File) write(content leaderepoch.Cache) error {
	if err := vfs.WriteFileAtomic(e.FS, filepath.Join(e.Dir, checkpoint.EpochsFile),
		checkpoint.EncodeEpochs(content)); err != nil {
		e.failed = true
		return fmt.Errorf("%w: write leader epochs: %w", segmentlist.ErrStorage, err)
	}
	e.failed = false
	return nil
}

// save durably writes the new epochs next to the file. Then it replaces the current epochs by next.
// The caller holds writing and Log.mu, or runs recovery.
func (e *File) save(next leaderepoch.Cache) error {
	if err := e.write(next); err != nil {
		return err
	}
	e.cache.Store(&next)
	e.saved, e.unsavedSince = next, time.Time{}
	return nil
}

// TruncateEnd removes the epochs that start at or above end, because the next leader may append
// records of other epochs at those offsets. It writes the file if the file may contain such epochs.
// It fails if the log has stopped.
func (e *File) TruncateEnd(end int64) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if stopped := e.Fault.StoppedLocked(); stopped != nil {
		return stopped
	}
	epochs := e.Load()
	kept := epochs.Below(end)
	if len(kept) < len(epochs) && e.failed || len(e.saved.Below(end)) < len(e.saved) {
		return e.save(kept)
	}
	e.cache.Store(&kept)
	return nil
}

// TruncateFront removes the epochs that end at or below a log start that no crash reverts. It
// writes the file only if it removes an epoch, or if an epoch that starts below the log start is
// unsaved, because no batch that contains the epoch's number may be left. Otherwise only the start
// offset of the first epoch would change. That change affects no lookup at or above the log start,
// and the next start of the store computes it anyway (package recovery).
//
// TruncateFront does nothing if the log has stopped: if the log was closed, its directory may now
// belong to another log, so no file is written. The next start removes the old leader epochs.
func (e *File) TruncateFront(logStart int64) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.Fault.StoppedLocked() != nil {
		return nil
	}
	epochs := e.Load()
	kept := epochs.TruncateFront(logStart)
	if len(kept) == len(epochs) && e.UnsavedFromLocked() >= logStart {
		return nil
	}
	return e.save(kept)
}

// Restore sets the epochs that recovery has found. It replaces an unusable file at once. found
// contains the epochs in the file, or is nil if the file does not exist. If the log also has later
// epochs, and the scanned batches contain them, these epochs stay unsaved: otherwise the start of a
// broker after a failover would write hundreds of files.
func (e *File) Restore(epochs, found leaderepoch.Cache, unusable bool,
	scannedFrom int64) error {
	known := len(found)
	if !unusable && len(epochs) >= known && slices.Equal(epochs[:known], found) &&
		(len(epochs) == known || epochs[known].Start >= scannedFrom) {
		e.cache.Store(&epochs)
		e.saved = found
		return nil
	}
	// The file is also written if no epoch remains. Otherwise an epoch in the file that starts
	// above the log end would reappear, and would apply to records that are appended at those
	// offsets later.
	return e.save(epochs)
}

// DueLocked reports whether a round of maintenance at the time now should write the file. rolledAt
// is the base offset of the active segment. Unsaved epochs of other segments are due at once,
// because a start would have to scan these segments.
func (e *File) DueLocked(now time.Time, rolledAt int64) bool {
	if e.Fault.StoppedLocked() != nil {
		return false
	}
	from := e.UnsavedFromLocked()
	if from == math.MaxInt64 {
		e.unsavedSince = time.Time{}
		return false
	}
	if e.unsavedSince.IsZero() {
		e.unsavedSince = now
	}
	return from < rolledAt || now.Sub(e.unsavedSince) >= Delay
}

// SaveDue writes the epoch file, unless the log has stopped meanwhile.
func (e *File) SaveDue() error {
	e.Maintain.Lock()
	defer e.Maintain.Unlock()
	e.Mu.Lock()
	stopped := e.Fault.StoppedLocked() != nil
	e.Mu.Unlock()
	if stopped {
		return nil
	}
	return e.Save()
}

// Save writes the epoch file if an epoch is unsaved. Meanwhile appends continue. The caller holds
// Log.maintain, so the log is not closed during the call.
func (e *File) Save() error {
	e.writing.Lock()
	defer e.writing.Unlock()
	e.Mu.Lock()
	unsaved := e.UnsavedFromLocked() < math.MaxInt64
	e.Mu.Unlock()
	if !unsaved {
		return nil
	}
	return e.saveCurrent()
}

// Rewrite replaces a damaged epoch file by the epochs in memory. The caller holds Log.maintain.
func (e *File) Rewrite() error {
	e.writing.Lock()
	defer e.writing.Unlock()
	return e.saveCurrent()
}

// Known returns the content that this process last read from the file or wrote to it. ok is false
// if the file does not exist, or if its content is unknown.
func (e *File) Known() (content []byte, ok bool) {
	e.writing.Lock()
	defer e.writing.Unlock()
	e.Mu.Lock()
	defer e.Mu.Unlock()
	return checkpoint.EncodeEpochs(e.saved), len(e.saved) > 0 && !e.failed
}

// saveCurrent writes the current epochs to the file. The caller holds writing.
func (e *File) saveCurrent() error {
	e.Mu.Lock()
	content := e.Load()
	e.Mu.Unlock()
	if err := e.write(content); err != nil {
		return err
	}
	e.Mu.Lock()
	defer e.Mu.Unlock()
	e.saved, e.unsavedSince = content, time.Time{}
	return nil
}

// SaveBelow writes the epoch file if an epoch that starts below end is unsaved. It is called before
// the batches below end are deleted, or before the log start passes them. If the disk is full, the
// batches are deleted nevertheless, because this frees space. The caller holds Log.maintain.
func (e *File) SaveBelow(end int64) error {
	e.Mu.Lock()
	unsaved := e.UnsavedFromLocked() < end
	e.Mu.Unlock()
	if !unsaved {
		return nil
	}
	if err := e.Save(); err != nil && !segmentlist.IsTemporary(err) {
		return err
	}
	return nil
}

// Remove durably removes the epoch file and all epochs. Without the sync a crash could restore the
// file, and its epochs would apply to other records at the same offsets.
func (e *File) Remove() error {
	e.writing.Lock()
	defer e.writing.Unlock()
	err := e.FS.Remove(filepath.Join(e.Dir, checkpoint.EpochsFile))
	if err == nil {
		err = e.FS.SyncDir(e.Dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	e.Mu.Lock()
	defer e.Mu.Unlock()
	e.cache.Store(&leaderepoch.Cache{})
	e.saved, e.failed, e.unsavedSince = nil, false, time.Time{}
	return nil
}
