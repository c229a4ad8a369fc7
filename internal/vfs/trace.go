package vfs

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Trace wraps a filesystem and notes, in order, every operation that changes it or makes changes
// durable; reads are not noted. A failed operation is noted with its error. A line stands where the
// operation ended, so operations side by side may be noted in either order.
type Trace struct {
	FS
	dir   string
	mu    sync.Mutex
	lines strings.Builder
}

// NewTrace returns a wrapper of inner. Names below dir are noted relative to it, so that a golden
// file holds no path of the machine that made it.
func NewTrace(inner FS, dir string) *Trace { return &Trace{FS: inner, dir: dir} }

// Take returns the lines noted so far, each ended by a newline, and begins anew.
func (t *Trace) Take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines.String()
	t.lines.Reset()
	return lines
}

// note adds a line and hands the error on.
func (t *Trace) note(op Op, detail string, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(&t.lines, "%s %s", op, detail)
	if err != nil {
		fmt.Fprintf(&t.lines, ": %v", err)
	}
	t.lines.WriteByte('\n')
	return err
}

// relative cuts dir off a name; one that lies elsewhere stays as it is.
func (t *Trace) relative(name string) string {
	if rel, err := filepath.Rel(t.dir, name); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return name
}

// Open implements FS. The file is wrapped, for its Sync.
func (t *Trace) Open(name string) (File, error) { return t.wrap(t.FS.Open(name)) }

// OpenReadWrite implements FS.
func (t *Trace) OpenReadWrite(name string) (File, error) { return t.wrap(t.FS.OpenReadWrite(name)) }

// Create implements FS.
func (t *Trace) Create(name string) (File, error) {
	file, err := t.FS.Create(name)
	return t.wrap(file, t.note(OpCreate, t.relative(name), err))
}

// wrap traces an opened file; its arguments are those of FS.Open's answer.
func (t *Trace) wrap(file File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &traceFile{File: file, trace: t}, nil
}

// Rename implements FS.
func (t *Trace) Rename(oldName, newName string) error {
	return t.note(OpRename, t.relative(oldName)+" -> "+t.relative(newName),
		t.FS.Rename(oldName, newName))
}

// Remove implements FS.
func (t *Trace) Remove(name string) error {
	return t.note(OpRemove, t.relative(name), t.FS.Remove(name))
}

// RemoveAll implements FS.
func (t *Trace) RemoveAll(name string) error {
	return t.note(OpRemoveAll, t.relative(name), t.FS.RemoveAll(name))
}

// MkdirAll implements FS.
func (t *Trace) MkdirAll(name string) error {
	return t.note(OpMkdir, t.relative(name), t.FS.MkdirAll(name))
}

// Chtimes implements FS. The time is not noted: it differs from run to run.
func (t *Trace) Chtimes(name string, mtime time.Time) error {
	return t.note(OpChtimes, t.relative(name), t.FS.Chtimes(name, mtime))
}

// SyncDir implements FS.
func (t *Trace) SyncDir(name string) error {
	return t.note(OpSyncDir, t.relative(name), t.FS.SyncDir(name))
}

// Lock implements FS.
func (t *Trace) Lock(name string) (io.Closer, error) {
	lock, err := t.FS.Lock(name)
	return lock, t.note(OpLock, t.relative(name), err)
}

// traceFile is a file of a Trace.
type traceFile struct {
	File
	trace *Trace
}

// WriteAt implements File.
func (f *traceFile) WriteAt(p []byte, offset int64) (int, error) {
	n, err := f.File.WriteAt(p, offset)
	return n, f.trace.note(OpWrite,
		fmt.Sprintf("%s %d+%d", f.trace.relative(f.Name()), offset, len(p)), err)
}

// Truncate implements File.
func (f *traceFile) Truncate(size int64) error {
	return f.trace.note(OpTruncate, fmt.Sprintf("%s %d", f.trace.relative(f.Name()), size),
		f.File.Truncate(size))
}

// Sync implements File.
func (f *traceFile) Sync() error {
	return f.trace.note(OpSync, f.trace.relative(f.Name()), f.File.Sync())
}
