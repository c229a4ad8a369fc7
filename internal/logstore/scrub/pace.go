package scrub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

const (
	// restFactor limits how long the scrub occupies the disk: after each read it pauses for at least
	// restFactor times the duration of the read. On a disk that clients keep busy, reads take longer,
	// so the scrub becomes slower.
	restFactor = 3
	// busyFactor is the factor by which the rate is reduced while Options.Busy reports true.
	busyFactor = 8
	// shortestRest is the minimum duration of a pause. Shorter pauses are accumulated.
	shortestRest = 10 * time.Millisecond
)

// ErrOff is the error of a request, and of a running check, while the scrub is off.
var ErrOff = errors.New("the scrub is off")

// readError is a failure of the disk to read a file.
type readError struct {
	file     string
	position int64
	cause    error
}

func (e *readError) Error() string { return fmt.Sprintf("read %s: %v", e.file, e.cause) }
func (e *readError) Unwrap() error { return e.cause }

// pacer limits the rate of the reads. A repair may read with several goroutines.
type pacer struct {
	ctx     context.Context //nolint:containedctx // that of Run, which is the only caller
	rate    func() int64    // bytes per second; 0 if the scrub is off
	busy    func() bool
	checked *atomic.Int64 // bytes read
	mu      sync.Mutex
	debt    time.Duration // pause that is still due, guarded by mu
}

// rest returns how long to pause after a read of n bytes that took the given time.
func rest(n int, took time.Duration, rate int64, busy bool) time.Duration {
	if busy {
		rate = max(1, rate/busyFactor)
	}
	due := time.Duration(float64(n)/float64(rate)*float64(time.Second)) - took
	return max(due, restFactor*took)
}

// before fails if nothing more may be read, because the scrub was turned off or stopped.
func (p *pacer) before() error {
	if p.rate() == 0 {
		return ErrOff
	}
	return p.ctx.Err()
}

// after pauses after a read of the scrub.
func (p *pacer) after(n int, took time.Duration) error {
	p.checked.Add(int64(n))
	return p.pause(p.ctx, n, took)
}

// pause pauses after a read of the scrub or of a repair; see repair.Pace.
func (p *pacer) pause(ctx context.Context, n int, took time.Duration) error {
	rate := p.rate()
	if rate == 0 {
		return ErrOff
	}
	p.mu.Lock()
	due := p.debt + rest(n, took, rate, p.busy())
	p.debt = due
	if due >= shortestRest {
		p.debt = 0
	}
	p.mu.Unlock()
	if due < shortestRest {
		return ctx.Err()
	}
	timer := time.NewTimer(due)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pacedFS is a file system that limits the rate of reads, and leaves the page cache unchanged (ADR
// 0112).
type pacedFS struct {
	vfs.FS
	pace *pacer
}

// Open implements vfs.FS.
func (f pacedFS) Open(name string) (vfs.File, error) {
	if err := f.pace.before(); err != nil {
		return nil, err
	}
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &pacedFile{file, f.pace, vfs.NewCacheUse(file, size)}, nil
}

// ReadFile implements vfs.FS.
func (f pacedFS) ReadFile(name string) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	var content []byte
	if err == nil {
		content = make([]byte, size)
		var n int
		if n, err = file.ReadAt(content, 0); errors.Is(err, io.EOF) {
			content, err = content[:n], nil
		}
	}
	return content, errors.Join(err, file.Close())
}

type pacedFile struct {
	vfs.File
	pace  *pacer
	cache *vfs.CacheUse
}

// Close implements vfs.File.
func (f *pacedFile) Close() error {
	f.cache.DropAll()
	return f.File.Close()
}

// ReadAt implements vfs.File.
func (f *pacedFile) ReadAt(p []byte, position int64) (int, error) {
	if err := f.pace.before(); err != nil {
		return 0, err
	}
	began := time.Now()
	n, err := f.File.ReadAt(p, position)
	took := time.Since(began)
	if n > 0 {
		f.cache.Drop(position, position+int64(n))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, &readError{f.Name(), position, err}
	}
	if paced := f.pace.after(n, took); paced != nil {
		return n, paced
	}
	return n, err
}
