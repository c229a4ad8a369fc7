package logstore

import (
	"errors"
	"syscall"

	"heartwood.dev/heartwood/internal/vfs"
)

// fill makes the disk full for a few acts: writes fail, and so do creations of files and
// directories.
func (w *workload) fill(_ *partitionModel, _ *Log) {
	if w.fullFor > 0 {
		return
	}
	w.fullFor = 1 + w.random.IntN(6)
	for _, p := range w.models {
		p.wasFull = true
	}
	skip := w.random.IntN(4)
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite, vfs.OpMkdir} {
		w.fault.Inject(vfs.Rule{Op: op, Skip: skip, Err: syscall.ENOSPC,
			WriteBytes: w.random.IntN(2) * w.random.IntN(90)})
	}
}

// freeSpace ends the full-disk state that fill began.
func (w *workload) freeSpace() {
	w.fullFor = 0
	w.fault.Clear()
}

// done reports whether an operation succeeded. On a full disk the operation may fail with ENOSPC.
// Any other error fails the test.
func (w *workload) done(err error, what string) bool {
	if err != nil && w.fullFor > 0 && errors.Is(err, syscall.ENOSPC) {
		w.remember("(full)")
		return false
	}
	w.must(err, what)
	return true
}
