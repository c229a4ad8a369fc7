package vfs

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
)

// Handles is a table of files. It opens a file when the file is used, and keeps only a limited
// number of files open: a log may have many more segments than a process may have file descriptors.
// It first closes files that were not used recently (the second-chance algorithm).
//
// Files with unsynced writes stay open regardless of the limit. The reason is that the kernel may
// fail to write their pages back, and a file that was closed and reopened might never report that
// error. Files that are pinned or kept also stay open. A file whose Close fails is treated as
// closed.
//
// If the process has no file descriptor left, Handles closes other files of the table in order to
// open the requested one. If that does not help, the operation fails. A caller that pins a file
// before it changes the file can distinguish this failure from a failure of the disk.
type Handles struct {
	fs  FS
	max int
	mu  struct {
		sync.Mutex
		open []*Handle // unordered
		next int       // index in open at which the search for a file to evict continues
	}
}

// NewHandles returns a table that keeps at most openMax files open; 0 means no limit.
func NewHandles(fsys FS, openMax int) *Handles { return &Handles{fs: fsys, max: openMax} }

// Handle is a File in the table of Handles. The underlying file is opened for reading and writing
// when the Handle is used, and may be closed afterwards. A caller pins the Handle if it needs the
// underlying file itself, or if the file must stay open over several calls.
type Handle struct {
	table *Handles

	// users is the number of current users of the underlying file, or usersNone while the file is not
	// open.
	//
	// file is assigned only by a goroutine that holds mu, while users is usersNone. It is read only by
	// a goroutine that has incremented users from a value of 0 or more, until the goroutine decrements
	// users again. Therefore no goroutine assigns file while another one reads it.
	users atomic.Int64
	file  File
	used  atomic.Bool // the file was used after the last eviction scan visited it
	// dirty is set if the file has unsynced writes. A writer sets it before it decrements users, so a
	// goroutine that changes users from 0 to usersNone reads the current value.
	dirty atomic.Bool
	kept  atomic.Bool // see Keep and Freeze
	index int         // index of this handle in Handles.mu.open; guarded by Handles.mu

	mu struct {
		sync.Mutex // held while the file is being opened
		name       string
		closed     bool // true: the underlying file is never opened again
	}
}

const usersNone = -1

var _ File = (*Handle)(nil)

// Handle returns the handle for an existing file without opening the file.
func (s *Handles) Handle(name string) *Handle {
	h := &Handle{table: s}
	h.mu.name = name
	h.users.Store(usersNone)
	return h
}

// Create creates a file, as FS.Create does, and returns its handle.
func (s *Handles) Create(name string) (*Handle, error) { return s.opened(name, s.fs.Create) }

// OpenReadWrite opens an existing file and returns its handle.
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
	// evictionScanMax is the maximum number of files that are scanned for a file to evict when another
	// one is opened. It limits how long the lock is held, because a table can contain ten thousand
	// files. If most files must stay open, the limit on open files is exceeded until later scans find
	// files to evict.
	evictionScanMax = 512
	// exhaustionEvictions is the number of files that are closed when the process has no descriptor
	// left. It is more than one, because other goroutines may use the released descriptors first.
	exhaustionEvictions = 16
	// openAttempts is the maximum number of attempts to open a file.
	openAttempts = 4
)

// openFile opens a file. If the process has no descriptor left, it closes other files of the table
// and tries again.
func (s *Handles) openFile(name string, open func(string) (File, error)) (file File, err error) {
	err = s.WithDescriptor(func() error {
		file, err = open(name)
		return err
	})
	return file, err
}

// WithDescriptor calls do, which opens a file or a directory outside the table. If do fails because
// the process or the system has no descriptor left, WithDescriptor closes files of the table and
// calls do again. So it must be possible to call do repeatedly.
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

// admit adds to the table a file that was just opened and is in use. It evicts other files if the
// limit on open files is exceeded.
func (s *Handles) admit(h *Handle) {
	s.mu.Lock()
	h.index = len(s.mu.open)
	s.mu.open = append(s.mu.open, h)
	var victims []File
	if s.max > 0 {
		// Scan each file at most twice: the first visit clears the mark of a recently used file,
		// and the second can evict it.
		victims = s.evictLocked(s.max, min(2*len(s.mu.open), evictionScanMax))
	}
	s.mu.Unlock()
	closeClean(victims)
}

// evictLocked removes files from the table until at most keep files are left or scanMax files have
// been scanned. The caller must close the returned files.
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

// closeClean closes files without unsynced writes. It ignores errors, because no data can be lost.
func closeClean(victims []File) {
	for _, file := range victims {
		_ = file.Close()
	}
}

// CloseIdle closes the files that were not used since the previous call, except files that must
// stay open. If it is called regularly, it releases the descriptors of unused files long before the
// limit on open files is reached.
func (s *Handles) CloseIdle() {
	s.mu.Lock()
	end := len(s.mu.open)
	s.mu.Unlock()
	for end > 0 {
		s.mu.Lock()
		// Other goroutines may have removed files in the meantime. Scan from the last file to the first,
		// because a removal moves the last file, which was already scanned, to the removed file's place.
		end = min(end, len(s.mu.open))
		var victims []File
		for scanned := 0; end > 0 && scanned < evictionScanMax; scanned++ {
			end--
			h := s.mu.open[end]
			if file := h.tryEvict(); file != nil {
				victims = append(victims, file)
				s.removeLocked(h)
			}
		}
		s.mu.Unlock()
		closeClean(victims)
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

// Full reports whether the number of open files exceeds the table's limit. This is possible because
// files must stay open, mostly because of unsynced writes.
func (s *Handles) Full() bool { return s.max > 0 && s.Open() > s.max }

// tryEvict removes and returns the underlying file of a handle without users. It returns nil if the
// file must stay open or was used recently. It does not block, because the caller holds Handles.mu
// and the lock order is Handle.mu before Handles.mu.
func (h *Handle) tryEvict() File {
	if h.used.Swap(false) || !h.mu.TryLock() {
		return nil
	}
	defer h.mu.Unlock()
	if !h.users.CompareAndSwap(0, usersNone) {
		return nil
	}
	if h.dirty.Load() || h.kept.Load() {
		// No other goroutine has opened the file in the meantime, because that requires h.mu.
		h.users.Store(0)
		return nil
	}
	file := h.file
	h.file = nil
	return file
}

// CloseUnused closes the underlying file if no goroutine uses it now and it does not have to stay
// open. The next use opens it again.
func (h *Handle) CloseUnused() {
	h.used.Store(false)
	h.table.mu.Lock()
	file := h.tryEvict()
	if file != nil {
		h.table.removeLocked(h)
	}
	h.table.mu.Unlock()
	if file != nil {
		closeClean([]File{file})
	}
}

// Pin opens the underlying file, if it is not open, and keeps it open until Unpin. It returns the
// underlying file.
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
			if !h.used.Load() { // avoid the write if it is already set, so that the cache line stays shared
				h.used.Store(true)
			}
			return h.file, nil
		}
	}
}

// Unpin must be called once for each successful Pin.
func (h *Handle) Unpin() { h.users.Add(-1) }

// open opens the file and pins it, unless another goroutine has opened it in the meantime. Only
// callers for the same file block each other. It pins the file immediately, because otherwise the
// file could be closed again before the caller reads it, if more files are in use than the limit
// permits.
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
	// openFile acquires Handles.mu while h.mu is held, as the lock order requires.
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

// Keep opens the file and keeps it open until Release or Close. A caller uses it before it renames
// or removes the file, because the table could not open the file by its old name afterwards.
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

// Release ends the effect of Keep and sets the file's new name.
func (h *Handle) Release(name string) {
	h.mu.Lock()
	h.mu.name = name
	h.mu.Unlock()
	h.kept.Store(false)
}

// Freeze prevents the file from being opened again, because its name may soon belong to another
// file. If the file is open, it stays open until Close.
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
	// Set dirty after the write and before Unpin. If it were set before the write, a Sync that runs
	// before the write would clear it.
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
	defer h.dirty.Store(true) // see WriteAt
	return file.Truncate(size)
}

// Sync implements File. If it fails, the file stays open, because its writes still count as
// unsynced.
func (h *Handle) Sync() error {
	file, err := h.Pin()
	if err != nil {
		return err
	}
	defer h.Unpin()
	h.dirty.Store(false) // before the sync, so that concurrent writes set it again
	if err := file.Sync(); err != nil {
		h.dirty.Store(true)
		return err
	}
	return nil
}

// Close implements File. The file must not be pinned or in use.
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
