package vfs

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Trace wraps a filesystem and writes a line for every operation that changes files or directories
// or makes changes durable. It writes no lines for reads. The line for a failed operation includes
// the error. A line is written when the operation ends, so the order of concurrent operations is
// not defined.
type Trace struct {
	FS
	dir   string
	mu    sync.Mutex
	lines strings.Builder
}

// NewTrace returns a Trace around inner. It writes names below dir relative to dir, so that golden
// files do not depend on the machine.
func NewTrace(inner FS, dir string) *Trace { return &Trace{FS: inner, dir: dir} }

// Take returns the lines since the last Take, each terminated by a newline.
func (t *Trace) Take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines.String()
	t.lines.Reset()
	return lines
}

// record adds the line for an operation and returns err, the operation's result.
func (t *Trace) record(op Op, detail string, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(&t.lines, "%s %s", op, detail)
	if err != nil {
		fmt.Fprintf(&t.lines, ": %v", err)
	}
	t.lines.WriteByte('\n')
	return err
}

// relative returns name relative to dir if it is below dir, and otherwise name itself.
func (t *Trace) relative(name string) string {
	if rel, err := filepath.Rel(t.dir, name); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return name
}

// Open implements FS. The file is wrapped because it can be synced, although it cannot be written.
func (t *Trace) Open(name string) (File, error) { return t.wrap(t.FS.Open(name)) }

// OpenReadWrite implements FS.
func (t *Trace) OpenReadWrite(name string) (File, error) { return t.wrap(t.FS.OpenReadWrite(name)) }

// Create implements FS.
func (t *Trace) Create(name string) (File, error) {
	file, err := t.FS.Create(name)
	return t.wrap(file, t.record(OpCreate, t.relative(name), err))
}

// wrap wraps the file that an open call has returned. Its arguments are the results of the call.
func (t *Trace) wrap(file File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &traceFile{File: file, trace: t}, nil
}

// Rename implements FS.
func (t *Trace) Rename(oldName, newName string) error {
	return t.record(OpRename, t.relative(oldName)+" -> "+t.relative(newName),
		t.FS.Rename(oldName, newName))
}

// Remove implements FS.
func (t *Trace) Remove(name string) error {
	return t.record(OpRemove, t.relative(name), t.FS.Remove(name))
}

// RemoveAll implements FS.
func (t *Trace) RemoveAll(name string) error {
	return t.record(OpRemoveAll, t.relative(name), t.FS.RemoveAll(name))
}

// MkdirAll implements FS.
func (t *Trace) MkdirAll(name string) error {
	return t.record(OpMkdir, t.relative(name), t.FS.MkdirAll(name))
}

// Chtimes implements FS. The line does not contain the time, because it differs between runs.
func (t *Trace) Chtimes(name string, mtime time.Time) error {
	return t.record(OpChtimes, t.relative(name), t.FS.Chtimes(name, mtime))
}

// SyncDir implements FS.
func (t *Trace) SyncDir(name string) error {
	return t.record(OpSyncDir, t.relative(name), t.FS.SyncDir(name))
}

// Lock implements FS.
func (t *Trace) Lock(name string) (io.Closer, error) {
	lock, err := t.FS.Lock(name)
	return lock, t.record(OpLock, t.relative(name), err)
}

type traceFile struct {
	File
	trace *Trace
}

// WriteAt implements File.
func (f *traceFile) WriteAt(p []byte, offset int64) (int, error) {
	n, err := f.File.WriteAt(p, offset)
	return n, f.trace.record(OpWrite,
		fmt.Sprintf("%s %d+%d", f.trace.relative(f.Name()), offset, len(p)), err)
}

// Truncate implements File.
func (f *traceFile) Truncate(size int64) error {
	return f.trace.record(OpTruncate, fmt.Sprintf("%s %d", f.trace.relative(f.Name()), size),
		f.File.Truncate(size))
}

// Sync implements File.
func (f *traceFile) Sync() error {
	return f.trace.record(OpSync, f.trace.relative(f.Name()), f.File.Sync())
}
