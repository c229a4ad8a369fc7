package sim

import (
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

// diskErrors are the errors that the disk of a broker returns at present.
type diskErrors struct {
	mu       sync.Mutex
	full     bool   // writes fail, after some of their bytes
	reads    string // reads of files of this directory fail; "": none
	syncs    string // the next sync of a segment of this directory fails; "": none
	occurred bool   // the present process has received an error
}

// returned notes that the process receives an error, unless it is nil.
func (e *diskErrors) returned(op, name string, fails bool, err error) error {
	if !fails {
		return nil
	}
	e.occurred = true
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// write returns the error of a write or of the creation of a file.
func (e *diskErrors) write(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.returned("write", name, e.full, syscall.ENOSPC)
}

// read returns the error of a read of a segment.
func (e *diskErrors) read(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.returned("read", name, e.reads != "" && strings.HasPrefix(name, e.reads), syscall.EIO)
}

// sync returns the error of a sync. Like Linux, the disk then drops what it could not write: reads
// still return it, and later syncs succeed without writing it.
func (e *diskErrors) sync(disk *vfs.Mem, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	fails := e.syncs != "" && strings.HasPrefix(name, e.syncs) && strings.HasSuffix(name, ".log")
	if fails {
		e.syncs = ""
		_ = disk.LoseUnsynced(name) // the segment may have been removed meanwhile
	}
	return e.returned("sync", name, fails, syscall.EIO)
}

// end ends all errors.
func (e *diskErrors) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.full, e.reads, e.syncs = false, "", ""
}

// takeOccurred reports whether the present process has received an error, and begins another one.
func (e *diskErrors) takeOccurred() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	occurred := e.occurred
	e.occurred = false
	return occurred
}

func (e *diskErrors) hasOccurred() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.occurred
}

// failDisk lets the disk of a broker return errors for a while. They destroy nothing, but a process
// that has received one must start again, because its logs may have stopped.
func (w *world) failDisk(b *broker) {
	if !w.profile.diskErrors {
		return
	}
	dir := "/data/" + w.randomTopic().partitionID().String() + "/"
	d := w.randomDuration(100*time.Millisecond, 8*time.Second)
	e := b.errors
	e.mu.Lock()
	defer e.mu.Unlock()
	switch w.random.IntN(3) {
	case 0:
		w.tracef("the disk of broker %d is full for %s", b.id, d)
		e.full = true
	case 1:
		w.tracef("reads of %s on broker %d fail for %s", dir, b.id, d)
		e.reads = dir
	case 2:
		w.tracef("the next sync of %s on broker %d fails", dir, b.id)
		e.syncs = dir
	}
	w.scale.count.diskErrors++
	w.schedule(d, func() {
		e.end()
		w.schedule(w.randomDuration(0, 4*time.Second), func() { w.restartAfterErrors(b) })
	})
}

// restartAfterErrors kills a process whose disk has returned errors, as a person does once the disk
// works again.
func (w *world) restartAfterErrors(b *broker) {
	if b.live.Load() != nil && b.errors.hasOccurred() {
		w.tracef("broker %d starts again after errors of its disk", b.id)
		w.kill(b)
	}
}
