package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// keysPath is the path of one of a sidecar's files.
func (l *Log) keysPath(base int64, extension, suffix string) string {
	return filepath.Join(l.dir, segment.Name(base, extension, suffix))
}

// keysForPass opens or makes the sidecar of a segment for a pass, which accounts what that costs.
func (l *Log) keysForPass(ctx context.Context, s *segment.Segment, opts clean.SidecarOptions,
	maker sidecarMaker) (*keys.Reader, error) {
	if opts.Rebuild {
		if err := l.dropSidecar(ctx, s); err != nil {
			return nil, err
		}
	}
	reader, err := l.openKeys(ctx, s, sidecarOptions{
		read: func(_ context.Context, n int) error { return opts.LogRead(n) },
		Options: keys.Options{
			MemoryBytes: sidecarMemoryBytes,
			Spend:       func(_ context.Context, n int) error { return opts.SidecarWritten(n) },
		},
		maker: maker,
	})
	if errors.Is(err, keys.ErrTooManyRecords) {
		return nil, nil
	}
	return reader, err
}

// dropSidecar removes the sidecar of a segment that contradicts it.
func (l *Log) dropSidecar(ctx context.Context, s *segment.Segment) error {
	if err := l.lockSidecars(ctx); err != nil {
		return err
	}
	defer l.unlockSidecars()
	list := l.acquire()
	if list == nil {
		return ErrClosed
	}
	defer list.release()
	if i := slices.IndexFunc(list.handles, func(h *handle) bool { return h.Segment == s }); i >= 0 {
		l.removeSidecar(list.handles[i])
	}
	return nil
}

// deadBytesMax bounds what is read of a .dead file whose segment has so many bytes: a record takes
// 7 bytes at least, compressed ones less, and a sidecar takes 2^30 of them at most.
const deadBytesMax = 256 << 20

// loadDead returns the .dead file of a segment, nil if there is none that can be read: it is worth
// nothing but time.
func (l *Log) loadDead(s *segment.Segment) []byte {
	name := l.keysPath(s.Base(), segment.DeadExtension, "")
	info, err := l.env.fs.Stat(name)
	if err != nil || info.Size() > deadBytesMax {
		return nil
	}
	content, err := l.env.fs.ReadFile(name)
	if err != nil {
		l.env.logger.Warn("read what is dead in a segment", "partition", l.id, "error", err)
		return nil
	}
	return content
}

// saveDead writes the .dead file of a segment that is in the log, or removes it.
func (l *Log) saveDead(s *segment.Segment, content []byte) error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	stopped, handles := l.mu.stopped, l.currentLocked()
	l.mu.Unlock()
	if stopped != nil {
		return stopped
	}
	if _, there := findSegments(handles, []*segment.Segment{s}); !there {
		return nil // retention took it
	}
	name := l.keysPath(s.Base(), segment.DeadExtension, "")
	if content == nil {
		if err := l.env.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %w", ErrStorage, err)
		}
		return nil
	}
	if err := vfs.WriteFileAtomic(l.env.fs, name, content); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return nil
}

// cleanProducers returns what a pass must know of the active producers.
func (l *Log) cleanProducers() map[int64]clean.Producer {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.mu.producers.LastBatches()
	all := make(map[int64]clean.Producer, len(last))
	for id, of := range last {
		all[id] = clean.Producer(of)
	}
	return all
}
