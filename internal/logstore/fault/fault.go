// Package fault contains the state of a log that has stopped, because its disk has failed or the
// log was closed. The log's lock guards the state.
package fault

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// State is the state of a log that works or has stopped. A log stops when it is closed, or when its
// disk fails.
type State struct {
	ID     checkpoint.PartitionID
	Logger *slog.Logger
	Mu     sync.Locker // the log's lock
	// Failed reports to the store that the log has stopped. It does not block.
	Failed func(checkpoint.PartitionID, error)

	stopped error // guarded by Mu; see StoppedLocked
	// fault is the error that stopped the log, or nil while the log works. It is set at most once.
	fault atomic.Pointer[error]
}

// StoppedLocked returns the error with which all appends are rejected, or nil while the log works.
// The caller holds Log.mu.
func (f *State) StoppedLocked() error { return f.stopped }

// CloseLocked stops a log that is being closed. The caller holds Log.mu.
func (f *State) CloseLocked() { f.stopped = segmentlist.ErrClosed }

// FailLocked stops the log: from now on the log rejects all appends. The state in memory may differ
// from the disk, and only recovery can reconcile the two. Reads continue. The caller holds Log.mu.
func (f *State) FailLocked(cause error) {
	if f.stopped != nil {
		return
	}
	stopped := fmt.Errorf("%w: log stopped: %w", segmentlist.ErrStorage, cause)
	f.stopped = stopped
	f.fault.Store(&stopped)
	f.Logger.Error("log failed: it accepts no more appends", "partition", f.ID, "error", cause)
	f.Failed(f.ID, stopped)
}

// Fail is like FailLocked, but for callers that do not hold Log.mu.
func (f *State) Fail(cause error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.FailLocked(cause)
}

// Err returns the error that stopped the log; see Log.Fault.
func (f *State) Err() error {
	if fault := f.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// AppendFailedLocked returns the error of a failed write. If the write left the segment intact
// (usually because the disk is full), the next append may succeed. Otherwise the content of the
// file is unknown, and the log stops. The caller holds Log.mu.
func (f *State) AppendFailedLocked(active *segmentlist.Handle, cause error) error {
	if active.Broken() != nil {
		f.FailLocked(cause)
		return f.stopped
	}
	return fmt.Errorf("%w: %w", segmentlist.ErrStorage, cause)
}

// SyncFailed returns the error for a failed sync of segment h with the given cause, and stops the
// log if the segment is broken. A failed sync is not retried: the kernel may have dropped the pages
// that it could not write, and would report success the next time (ADR 0011). The segment is not
// broken if the disk only had no space to rewrite the end of the segment (segment.Recover). In this
// case the sync was not attempted, and a later sync may succeed.
func (f *State) SyncFailed(h *segmentlist.Handle, cause error) error {
	err := fmt.Errorf("sync: %w", cause)
	if h.Broken() != nil {
		f.Fail(err)
	}
	return fmt.Errorf("%w: %w", segmentlist.ErrStorage, err)
}

// SealFailed stops the log. If an index cannot be written although the disk has space, the disk has
// failed.
func (f *State) SealFailed(cause error) error {
	err := fmt.Errorf("seal: %w", cause)
	f.Fail(err)
	return fmt.Errorf("%w: %w", segmentlist.ErrStorage, err)
}
