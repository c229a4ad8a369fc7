package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// producerState is a producer snapshot, as its file holds it.
type producerState struct {
	offset  int64 // what it is as of
	content []byte
}

// keepStateAt sees to it that there is a producer snapshot at the base of a segment: what lies
// below changes or goes, and a truncation to above it makes its state from there on. Mostly there
// is one, of the roll; a start that has scanned removes those of the segments it scanned.
func (l *Log) keepStateAt(handles []*handle, base int64) error {
	state, err := l.stateMissingAt(handles, base)
	if err != nil || state == nil {
		return err
	}
	return l.writeState(state)
}

// stateMissingAt makes the producer state as of a segment's base; nil if there is a snapshot of it,
// or nobody to be remembered.
func (l *Log) stateMissingAt(handles []*handle, base int64) (*producerState, error) {
	if from, _, err := newestSnapshot(l, base, base); err == nil && from == base && base > 0 {
		return nil, nil
	}
	state, _, err := stateAt(l, handles, base, base)
	if err != nil {
		return nil, fmt.Errorf("%w: producer state at %d: %w", ErrStorage, base, err)
	}
	if state.Len() == 0 {
		return nil, nil
	}
	return &producerState{base, state.Encode(base)}, nil
}

// writeState makes a snapshot durable.
func (l *Log) writeState(s *producerState) error {
	name := filepath.Join(l.dir, segment.Name(s.offset, snapshotSuffix, ""))
	if err := vfs.WriteFileAtomic(l.env.fs, name, s.content); err != nil {
		return fmt.Errorf("%w: producer snapshot at %d: %w", ErrStorage, s.offset, err)
	}
	return nil
}

// payOwed writes the producer snapshot that found no room when the segments it was made from were
// deleted. Log.maintain is held.
//
// Until it is written, a crash loses the state of producers whose batches are all deleted. Their
// next batch is then accepted whatever its sequence, as after they expired; but a producer whose
// transaction marker arrives first is known by that marker alone, and must begin at sequence 0, as
// in Kafka. Clients recover from that rejection by bumping their epoch (KIP-360).
func (l *Log) payOwed() {
	l.mu.Lock()
	owed, handles := l.mu.owed, l.currentLocked()
	l.mu.Unlock()
	if owed == nil {
		return
	}
	if len(handles) > 0 && handles[0].Base() <= owed.offset { // else it tells of what is gone
		err := l.writeState(owed)
		if errors.Is(err, syscall.ENOSPC) {
			return
		}
		if err != nil {
			l.env.logger.Warn("write a producer snapshot that had no room", "partition", l.id,
				"error", err)
		}
	}
	l.mu.Lock()
	l.mu.owed = nil
	l.mu.Unlock()
}
