package vfs

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
)

// Handles is a table of files that opens each file when it is used, and keeps a bounded number of
// them open: a log may have far more segments than a process may have descriptors. It closes the
// least recently used files first (second chance).
//
// Files with unsynced writes stay open whatever the bound, because a file that is closed and opened
// again may never report that the kernel could not write it back. So do files that are pinned or
// kept. A file whose Close fails counts as closed.
//
// When the process has no descriptor left, other files of the table are closed to open the
// requested one. A caller that pins the file before it changes anything can distinguish this case
// from a failing disk.
type Handles struct {
	fs  FS
	max int
	mu  struct {
		sync.Mutex
		open []*Handle // unordered
		next int       // index where the search for a file to evict continues
	}
}

// NewHandles returns a table that keeps at most openMax files open; 0 means no bound.
func NewHandles(fsys FS, openMax int) *Handles { return &Handles{fs: fsys, max: openMax} }

// Handle is a file of the table, open or not. The file is opened for reading and writing. Handle
// implements File. A caller that needs the file to stay open over several calls, or needs the File
// that FS returned, pins it.
type Handle struct {
	table *Handles

	// users is the number of users of the open file, or usersNone while it is not open.
	//
	// file is written only by a goroutine that holds mu while users is usersNone. It is read only
	// by a goroutine that has incremented users from 0 or more, until it decrements users again.
	// So a write never runs concurrently with a read.
	users atomic.Int64
	file  File
	used  atomic.Bool // since the last eviction scan passed it
	// dirty means unsynced writes. It is set before users is decremented, so a goroutine that
	// changes users from 0 sees it.
	dirty atomic.Bool
	kept  atomic.Bool
	index int // in Handles.mu.open; guarded by Handles.mu

	mu struct {
		sync.Mutex // held while the file is opened
		name       string
		closed     bool // permanently
	}
}

const usersNone = -1

var _ File = (*Handle)(nil)

// Handle returns an existing file without opening it.
func (s *Handles) Handle(name string) *Handle {
	h := &Handle{table: s}
	h.mu.name = name
	h.users.Store(usersNone)
	return h
}

// Create creates a file, as FS.Create does.
func (s *Handles) Create(name string) (*Handle, error) { return s.opened(name, s.fs.Create) }

// OpenReadWrite opens an existing file.
func (s *Handles) OpenReadWrite(name string) (*Handle, error) {
	return s.opened(name, s.fs.OpenReadWrite)
}

func (s *Handles) opened(name string, open func(string) (File, error)) (*Handle, error) {
	file, err := s.openFile(name, open)
	if err != nil {
		return nil, err
	}
	h := s.Handle(name)
	h.file = file
	h.users.Store(1)
	s.admit(h)
	h.Unpin()
	return h, nil
}

const (
	// evictionScanMax bounds how many files one open scans for a file to evict. If most files
	// have to stay open, the bound on open files is exceeded until later opens continue the scan. A
	// scan of all files would visit up to ten thousand of them under the lock.
	evictionScanMax = 512
	// exhaustionEvictions is the number of files that are closed when the process has no descriptor
	// left. It is more than one because another goroutine may take the first descriptor.
	exhaustionEvictions = 16
	// openAttempts is the number of attempts to open a file.
	openAttempts = 4
)

// openFile opens a file, and closes others of the table when there is no descriptor left.
func (s *Handles) openFile(name string, open func(string) (File, error)) (file File, err error) {
	err = s.WithDescriptor(func() error {
		file, err = open(name)
		return err
	})
	return file, err
}

// WithDescriptor runs do, which opens a file or a directory outside the table. When the process or
// the system has no descriptor left, it closes files of the table and runs do again, so do must be
// repeatable.
func (s *Handles) WithDescriptor(do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if !noDescriptorLeft(err) || try == openAttempts {
			return err
		}
		s.mu.Lock()
		victims := s.evictLocked(len(s.mu.open)-exhaustionEvictions, 2*len(s.mu.open))
		s.mu.Unlock()
		if closeClean(victims); len(victims) == 0 {
			return err
		}
	}
}

// noDescriptorLeft reports whether err means that too many files are open.
func noDescriptorLeft(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// admit adds an open file that is in use, and evicts other files if there are too many.
func (s *Handles) admit(h *Handle) {
	s.mu.Lock()
	h.index = len(s.mu.open)
	s.mu.open = append(s.mu.open, h)
	var victims []File
	if s.max > 0 {
		// Up to two scans of all files: the first one clears the marks of recently used files.
		victims = s.evictLocked(s.max, min(2*len(s.mu.open), evictionScanMax))
	}
	s.mu.Unlock()
	closeClean(victims)
}

// evictLocked removes files from the table until at most keep are open or scanMax files have
// been scanned. The caller closes the returned files.
func (s *Handles) evictLocked(keep, scanMax int) (victims []File) {
	for ; len(s.mu.open) > max(keep, 0) && scanMax > 0; scanMax-- {
		if s.mu.next >= len(s.mu.open) {
			s.mu.next = 0
		}
		file := s.mu.open[s.mu.next].tryEvict()
		if file == nil {
			s.mu.next++
			continue
		}
		victims = append(victims, file)
		s.removeLocked(s.mu.open[s.mu.next])
	}
	return victims
}

// closeClean closes files without unsynced writes, so that an error of Close loses nothing.
func closeClean(victims []File) {
	for _, file := range victims {
		_ = file.Close()
	}
}

func (s *Handles) removeLocked(h *Handle) {
	last := len(s.mu.open) - 1
	moved := s.mu.open[last]
	s.mu.open[h.index], moved.index = moved, h.index
	s.mu.open[last] = nil
	s.mu.open = s.mu.open[:last]
}

func (s *Handles) remove(h *Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(h)
}

// Open returns the number of open files.
func (s *Handles) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.open)
}

// tryEvict takes the file from a handle without users. It returns nil if the file has to stay open
// or was used recently. It never blocks: the caller holds Handles.mu, and a handle's mutex must not
// be waited for under it.
func (h *Handle) tryEvict() File {
	if h.used.Swap(false) || !h.mu.TryLock() {
		return nil
	}
	defer h.mu.Unlock()
	if !h.users.CompareAndSwap(0, usersNone) {
		return nil
	}
	if h.dirty.Load() || h.kept.Load() {
		h.users.Store(0) // no other goroutine has opened it: that requires mu
		return nil
	}
	file := h.file
	h.file = nil
	return file
}

// Pin opens the file, if it is not open, and keeps it open until Unpin. It returns the File that FS
// returned.
func (h *Handle) Pin() (File, error) {
	for {
		n := h.users.Load()
		if n == usersNone {
			switch pinned, err := h.open(); {
			case err != nil:
				return nil, err
			case pinned:
				return h.file, nil
			}
			continue
		}
		if h.users.CompareAndSwap(n, n+1) {
			if !h.used.Load() { // usually it is set, and then the cache line stays shared
				h.used.Store(true)
			}
			return h.file, nil
		}
	}
}

// Unpin ends a Pin.
func (h *Handle) Unpin() { h.users.Add(-1) }

// open opens the file and pins it, unless another goroutine has opened it meanwhile. Only callers
// for the same file wait for each other. The file is pinned because otherwise, with more files in
// use than may be open, each would be closed again before it is read.
func (h *Handle) open() (pinned bool, err error) {
	h.mu.Lock()
	if h.mu.closed {
		defer h.mu.Unlock()
		return false, pathError("use", h.mu.name, fs.ErrClosed)
	}
	if h.users.Load() != usersNone {
		defer h.mu.Unlock()
		return false, nil
	}
	// Handles.mu is acquired under h.mu here, never the other way round.
	file, err := h.table.openFile(h.mu.name, h.table.fs.OpenReadWrite)
	if err != nil {
		defer h.mu.Unlock()
		return false, err
	}
	h.file = file
	h.used.Store(true)
	h.users.Store(1)
	h.mu.Unlock()
	h.table.admit(h)
	return true, nil
}

// Keep opens the file and keeps it open until Release or Close, because its name is about to change
// or to be removed.
func (h *Handle) Keep() error {
	h.kept.Store(true)
	_, err := h.Pin()
	if err != nil {
		h.kept.Store(false)
		return err
	}
	h.Unpin()
	return nil
}

// Release ends a Keep and sets the file's new name.
func (h *Handle) Release(name string) {
	h.mu.Lock()
	h.mu.name = name
	h.mu.Unlock()
	h.kept.Store(false)
}

// Freeze declares that the name may soon belong to another file: a file that is not open is never
// opened again, and an open one stays open until Close.
func (h *Handle) Freeze() {
	h.kept.Store(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.closed = true
}

// Name implements File.
func (h *Handle) Name() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.name
}

// ReadAt implements File.
func (h *Handle) ReadAt(p []byte, offset int64) (int, error) {
	file, err := h.Pin()
	if err != nil {
		return 0, err
	}
	defer h.Unpin()
	return file.ReadAt(p, offset)
}

// WriteAt implements File.
func (h *Handle) WriteAt(p []byte, offset int64) (int, error) {
	file, err := h.Pin()
	if err != nil {
		return 0, err
	}
	defer h.Unpin()
	// Set after the write and before Unpin. If it were set before the write, a Sync that begins and
	// ends in between would clear it.
	defer h.dirty.Store(true)
	return file.WriteAt(p, offset)
}

// Size implements File.
func (h *Handle) Size() (int64, error) {
	file, err := h.Pin()
	if err != nil {
		return 0, err
	}
	defer h.Unpin()
	return file.Size()
}

// Truncate implements File.
func (h *Handle) Truncate(size int64) error {
	file, err := h.Pin()
	if err != nil {
		return err
	}
	defer h.Unpin()
	defer h.dirty.Store(true) // as in WriteAt
	return file.Truncate(size)
}

// Sync implements File. A file whose sync fails stays open and counts as not synced.
func (h *Handle) Sync() error {
	file, err := h.Pin()
	if err != nil {
		return err
	}
	defer h.Unpin()
	h.dirty.Store(false) // before the sync: concurrent writes count as unsynced
	if err := file.Sync(); err != nil {
		h.dirty.Store(true)
		return err
	}
	return nil
}

// Close implements File. The handle must not be in use.
func (h *Handle) Close() error {
	h.mu.Lock()
	h.mu.closed = true
	var file File
	if h.users.Swap(usersNone) != usersNone {
		file, h.file = h.file, nil
	}
	h.mu.Unlock()
	if file == nil {
		return nil
	}
	h.table.remove(h)
	return file.Close()
}
