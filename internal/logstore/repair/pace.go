package repair

import (
	"context"
	"errors"
	"io"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/vfs"
)

// Pace limits the rate of a repair: it is called after a read of n bytes, which took some time, and
// pauses. It fails if the repair should end. nil does not limit the rate.
type Pace func(ctx context.Context, n int, took time.Duration) error

// after pauses after a read of n bytes.
func (p Pace) after(ctx context.Context, n int, began time.Time) error {
	if p == nil {
		return ctx.Err()
	}
	return p(ctx, n, time.Since(began))
}

// sidecarOptions returns the options of the build of a key sidecar at this pace.
func (p Pace) sidecarOptions() sidecars.Options {
	throttle := func(ctx context.Context, n int) error { return p.after(ctx, n, time.Now()) }
	return sidecars.Options{Options: keys.Options{Throttle: throttle}, Scanned: throttle}
}

// pacedFS limits the rate of reads of files that OpenReadWrite opens.
type pacedFS struct {
	vfs.FS
	ctx  context.Context //nolint:containedctx // that of the repair, which is the only caller
	pace Pace
}

// OpenReadWrite implements vfs.FS.
func (f pacedFS) OpenReadWrite(name string) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	return pacedFile{file, f}, nil
}

type pacedFile struct {
	vfs.File
	fs pacedFS
}

// ReadAt implements vfs.File.
func (f pacedFile) ReadAt(p []byte, position int64) (int, error) {
	began := time.Now()
	n, err := f.File.ReadAt(p, position)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	if paced := f.fs.pace.after(f.fs.ctx, n, began); paced != nil {
		return 0, paced // readers ignore the error of a complete read
	}
	return n, err
}
