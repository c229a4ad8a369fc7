package vfs

import (
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Op names an operation, for Fault's rules and in Trace's lines.
type Op string

// The operations of FS and of File.
const (
	OpOpen      Op = "open" // also OpenReadWrite
	OpCreate    Op = "create"
	OpReadFile  Op = "read-file"
	OpRename    Op = "rename"
	OpRemove    Op = "remove"
	OpRemoveAll Op = "remove-all"
	OpMkdir     Op = "mkdir"
	OpReadDir   Op = "read-dir"
	OpStat      Op = "stat"
	OpChtimes   Op = "chtimes"
	OpSyncDir   Op = "sync-dir"
	OpLock      Op = "lock"
	OpFree      Op = "free"
	OpRead      Op = "read"
	OpWrite     Op = "write"
	OpSize      Op = "size"
	OpTruncate  Op = "truncate"
	OpSync      Op = "sync"
	OpClose     Op = "close"
)

// Rule says which operations of a Fault fail, and how. The zero value makes every operation fail
// with EIO.
type Rule struct {
	Op Op // default: any
	// pattern (path.Match) of the file's base name; for a rename, of the old one; default: any
	Name  string
	Skip  int   // so many matching operations succeed first
	Times int   // so many fail after them; default: all
	Err   error // default: EIO
	// WriteBytes is how much of its bytes a write that fails puts into the file all the same: a
	// short write.
	WriteBytes int
}

// Fault wraps a filesystem and makes operations fail as its rules say. A Close that fails closes
// all the same.
type Fault struct {
	inner FS
	mu    sync.Mutex // guards what follows, the counters within the rules too
	rules []*Rule
	count int // operations so far, failed ones too
	fails int // operations that a rule made fail
}

var _ FS = (*Fault)(nil)

// NewFault returns a wrapper of inner without rules.
func NewFault(inner FS) *Fault { return &Fault{inner: inner} }

// Inject adds a rule. The first rule that lets an operation fail decides.
func (f *Fault) Inject(rule Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &rule)
}

// Clear removes all rules: the disk is well again.
func (f *Fault) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Count returns how many operations there were. A test runs once to count, then once with a fault
// at each.
func (f *Fault) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// Failed returns how many operations a rule made fail. A test that skips more and more of them
// knows by it when there are no more.
func (f *Fault) Failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fails
}

// check counts an operation and returns the rule that makes it fail, with Err set; nil if it may go
// on.
func (f *Fault) check(op Op, name string) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	for _, rule := range f.rules {
		if rule.hits(op, name) {
			failure := *rule
			f.fails++
			if failure.Err == nil {
				failure.Err = syscall.EIO
			}
			failure.Err = &fs.PathError{Op: string(op), Path: name, Err: failure.Err}
			return &failure
		}
	}
	return nil
}

// fail is check for operations that fail as a whole.
func (f *Fault) fail(op Op, name string) error {
	if failure := f.check(op, name); failure != nil {
		return failure.Err
	}
	return nil
}

// hits tells whether the rule makes this operation fail, and counts it. Times counts down, from 1
// to the end, which is -1.
func (r *Rule) hits(op Op, name string) bool {
	if r.Op != "" && r.Op != op {
		return false
	}
	if matched, err := path.Match(r.Name, filepath.Base(name)); r.Name != "" &&
		(err != nil || !matched) {
		return false
	}
	switch {
	case r.Skip > 0:
		r.Skip--
		return false
	case r.Times < 0:
		return false
	case r.Times == 1:
		r.Times = -1
	case r.Times > 1:
		r.Times--
	}
	return true
}

// Open implements FS.
func (f *Fault) Open(name string) (File, error) { return f.file(OpOpen, name, f.inner.Open) }

// OpenReadWrite implements FS.
func (f *Fault) OpenReadWrite(name string) (File, error) {
	return f.file(OpOpen, name, f.inner.OpenReadWrite)
}

// Create implements FS.
func (f *Fault) Create(name string) (File, error) { return f.file(OpCreate, name, f.inner.Create) }

// file opens a file, wrapped so that the rules reach its operations as well.
func (f *Fault) file(op Op, name string, open func(string) (File, error)) (File, error) {
	if err := f.fail(op, name); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fault: f}, nil
}

// ReadFile implements FS.
func (f *Fault) ReadFile(name string) ([]byte, error) {
	if err := f.fail(OpReadFile, name); err != nil {
		return nil, err
	}
	return f.inner.ReadFile(name)
}

// Rename implements FS.
func (f *Fault) Rename(oldName, newName string) error {
	return f.do(OpRename, oldName, func() error { return f.inner.Rename(oldName, newName) })
}

// Remove implements FS.
func (f *Fault) Remove(name string) error {
	return f.do(OpRemove, name, func() error { return f.inner.Remove(name) })
}

// RemoveAll implements FS.
func (f *Fault) RemoveAll(name string) error {
	return f.do(OpRemoveAll, name, func() error { return f.inner.RemoveAll(name) })
}

// MkdirAll implements FS.
func (f *Fault) MkdirAll(name string) error {
	return f.do(OpMkdir, name, func() error { return f.inner.MkdirAll(name) })
}

// ReadDir implements FS.
func (f *Fault) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.fail(OpReadDir, name); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(name)
}

// Stat implements FS.
func (f *Fault) Stat(name string) (fs.FileInfo, error) {
	if err := f.fail(OpStat, name); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

// Chtimes implements FS.
func (f *Fault) Chtimes(name string, mtime time.Time) error {
	return f.do(OpChtimes, name, func() error { return f.inner.Chtimes(name, mtime) })
}

// SyncDir implements FS.
func (f *Fault) SyncDir(name string) error {
	return f.do(OpSyncDir, name, func() error { return f.inner.SyncDir(name) })
}

// Lock implements FS.
func (f *Fault) Lock(name string) (io.Closer, error) {
	if err := f.fail(OpLock, name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// Free implements FS.
func (f *Fault) Free(name string) (uint64, error) {
	if err := f.fail(OpFree, name); err != nil {
		return 0, err
	}
	return f.inner.Free(name)
}

// do runs an operation unless a rule lets it fail: then it is not even begun.
func (f *Fault) do(op Op, name string, run func() error) error {
	if err := f.fail(op, name); err != nil {
		return err
	}
	return run()
}
