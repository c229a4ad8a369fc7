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

// Op is the name of an operation in the rules of Fault and in the lines of Trace.
type Op string

// The operations of FS and of File.
const (
	OpOpen      Op = "open" // Open and OpenReadWrite
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

// Rule selects operations of a Fault that fail or wait, and describes the failure. The zero value
// makes every operation fail with EIO.
type Rule struct {
	Op Op // default: any operation
	// Name is a pattern (path.Match) for the file's base name; for a rename, it applies to the old
	// name. Default: any name.
	Name  string
	Skip  int   // number of matching operations that first succeed
	Times int   // number of operations that fail after the skipped ones; default: all
	Err   error // error of the failing operations; default: EIO
	// WriteBytes is the number of bytes that a failing write writes before it fails.
	WriteBytes int
	// Until makes the selected operations wait until the channel is closed, and then succeed. This
	// simulates a disk that blocks. Err and WriteBytes then have no effect.
	Until <-chan struct{}
}

// Fault wraps a filesystem and makes operations fail, or wait, according to its rules. A failing
// Close still closes the file.
type Fault struct {
	inner FS
	mu    sync.Mutex // guards the fields below and the rules' counters
	rules []*Rule
	count int // operations so far, including failed ones
	fails int // operations that failed because of a rule
}

var _ FS = (*Fault)(nil)

// NewFault returns a Fault around inner without rules.
func NewFault(inner FS) *Fault { return &Fault{inner: inner} }

// Inject adds a rule. If several rules match an operation, the first one applies.
func (f *Fault) Inject(rule Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &rule)
}

// Clear removes all rules, so that every operation succeeds again.
func (f *Fault) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Count returns the number of operations so far. With this number, a test can run its scenario once
// without faults, and then once for each operation with a fault in that operation.
func (f *Fault) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// Failed returns the number of operations that failed because of a rule. A test that repeats its
// scenario with an increasing Skip can end when no operation has failed.
func (f *Fault) Failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fails
}

// check counts an operation. It returns the rule that makes the operation fail, with Err set, or
// nil. If a rule makes the operation wait, check waits.
func (f *Fault) check(op Op, name string) *Rule {
	rule := f.selected(op, name)
	if rule != nil && rule.Until != nil {
		<-rule.Until
		return nil
	}
	return rule
}

// selected counts an operation and returns a copy of the first rule that selects it, or nil.
func (f *Fault) selected(op Op, name string) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	for _, rule := range f.rules {
		if rule.matches(op, name) {
			failure := *rule
			if failure.Until != nil {
				return &failure
			}
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

// fail calls check and returns only the error, for operations other than writes.
func (f *Fault) fail(op Op, name string) error {
	if failure := f.check(op, name); failure != nil {
		return failure.Err
	}
	return nil
}

// matches reports whether the rule makes this operation fail. It decrements Skip or Times. A rule
// without remaining failures has Times -1, because 0 means that all operations fail.
func (r *Rule) matches(op Op, name string) bool {
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

// file opens a file and wraps it, so that the rules apply to its operations as well.
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

// BootID implements FS.
func (f *Fault) BootID() string { return f.inner.BootID() }

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

// do runs an operation. If a rule makes the operation fail, do returns the error without running
// it.
func (f *Fault) do(op Op, name string, run func() error) error {
	if err := f.fail(op, name); err != nil {
		return err
	}
	return run()
}
