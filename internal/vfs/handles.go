package vfs

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
)

// Handles opens files when they are used, and keeps a bounded number of them open: a log may have
// far more segments than a process may have files. What was used lately stays open.
//
// Files that were written and not synced since stay open whatever the bound: a file that is closed
// and opened again may never hear that the kernel could not write it. So do files that are pinned
// or kept. A file that cannot be closed counts as closed.
//
// Where the process has no file left to open, others of the set are closed for the one that is
// wanted. Who pins the file first, before it changes anything, can tell that there was none from a
// disk that fails.
type Handles struct {
	fs  FS
	max int
	mu  struct {
		sync.Mutex
		open []*Handle // in no order
		hand int       // where the search for one that may be closed goes on
	}
}

// NewHandles returns a set of files of which openMax stay open; 0: all of them.
func NewHandles(fsys FS, openMax int) *Handles { return &Handles{fs: fsys, max: openMax} }

// Handle is a file of the set, open or not; it is opened for reading and writing. It implements
// File. Who needs the file to stay open over several calls, or has to have the one that FS gave,
// pins it.
type Handle struct {
	of *Handles

	// users is how many use the open file, or usersNone while it is not open.
	//
	// file is written only by a goroutine that holds mu while users is usersNone, and read only by
	// one that has raised users from 0 or more, and that until it has lowered it again. So there is
	// no write beside a read.
	users atomic.Int64
	file  File
	used  atomic.Bool // since the hand came by last
	// written and not synced since; set before users falls, so whoever takes users from 0 sees it
	dirty atomic.Bool
	kept  atomic.Bool
	at    int // in Handles.mu.open, whose lock guards it

	mu struct {
		sync.Mutex // held while the file is opened
		name       string
		closed     bool // for good
	}
}

const usersNone = -1

var _ File = (*Handle)(nil)

// Handle returns a file that is there, without opening it.
func (s *Handles) Handle(name string) *Handle {
	h := &Handle{of: s}
	h.mu.name = name
	h.users.Store(usersNone)
	return h
}

// Create makes a file, as FS.Create.
func (s *Handles) Create(name string) (*Handle, error) { return s.opened(name, s.fs.Create) }

// OpenReadWrite opens a file that is there.
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
	// looksMax bounds how many files an opening looks at for one that may be closed. If most have
	// to stay open, there are some more than the bound until later openings have come round; were
	// all looked at each time, ten thousand of them would be, under the lock.
	looksMax = 512
	// shedFiles is how many are closed when the process has no file left: somebody else may be
	// faster to take the first.
	shedFiles = 16
	// openTries is how often that is tried.
	openTries = 4
)

// openFile opens a file, and closes others of the set when the process or the system has none left.
func (s *Handles) openFile(name string, open func(string) (File, error)) (file File, err error) {
	err = s.Afford(func() error {
		file, err = open(name)
		return err
	})
	return file, err
}

// Afford does what opens a file, or a directory, that is none of the set. When the process or the
// system has none left, others of the set are closed, and it is done again: it must be something
// that can be.
func (s *Handles) Afford(do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if !noFileLeft(err) || try == openTries {
			return err
		}
		s.mu.Lock()
		victims := s.shedLocked(len(s.mu.open)-shedFiles, 2*len(s.mu.open))
		s.mu.Unlock()
		if closeClean(victims); len(victims) == 0 {
			return err
		}
	}
}

// noFileLeft tells that a file could not be opened because too many are.
func noFileLeft(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// admit counts an open file, which is in use, and closes another one if there are too many.
func (s *Handles) admit(h *Handle) {
	s.mu.Lock()
	h.at = len(s.mu.open)
	s.mu.open = append(s.mu.open, h)
	var victims []File
	if s.max > 0 {
		// Twice round: the first round takes the mark of what was used lately.
		victims = s.shedLocked(s.max, min(2*len(s.mu.open), looksMax))
	}
	s.mu.Unlock()
	closeClean(victims)
}

// shedLocked takes files that may be closed until no more than keep are open, or it has looked so
// often; they are the caller's to close.
func (s *Handles) shedLocked(keep, looks int) (victims []File) {
	for ; len(s.mu.open) > max(keep, 0) && looks > 0; looks-- {
		if s.mu.hand >= len(s.mu.open) {
			s.mu.hand = 0
		}
		file := s.mu.open[s.mu.hand].evict()
		if file == nil {
			s.mu.hand++
			continue
		}
		victims = append(victims, file)
		s.dropLocked(s.mu.open[s.mu.hand])
	}
	return victims
}

// closeClean closes files that are not dirty, so there is nothing that could be lost.
func closeClean(victims []File) {
	for _, file := range victims {
		_ = file.Close()
	}
}

// dropLocked forgets an open file.
func (s *Handles) dropLocked(h *Handle) {
	last := len(s.mu.open) - 1
	moved := s.mu.open[last]
	s.mu.open[h.at], moved.at = moved, h.at
	s.mu.open[last] = nil
	s.mu.open = s.mu.open[:last]
}

// forget is dropLocked for who does not hold the lock.
func (s *Handles) forget(h *Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(h)
}

// Open is how many files are open.
func (s *Handles) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.open)
}

// evict takes the file from a handle that nobody uses; nil if it has to stay open, or was used
// lately. It waits for nothing: Handles.mu is held, behind which a handle's own lock is never
// waited for.
func (h *Handle) evict() File {
	if h.used.Swap(false) || !h.mu.TryLock() {
		return nil
	}
	defer h.mu.Unlock()
	if !h.users.CompareAndSwap(0, usersNone) {
		return nil
	}
	if h.dirty.Load() || h.kept.Load() {
		h.users.Store(0) // nobody opened it meanwhile: that takes mu
		return nil
	}
	file := h.file
	h.file = nil
	return file
}

// Pin opens the file, if it is not open, and keeps it so until Unpin. The file is the one that FS
// gave.
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
			if !h.used.Load() { // most reads find it set, and leave the cache line alone
				h.used.Store(true)
			}
			return h.file, nil
		}
	}
}

// Unpin ends a Pin.
func (h *Handle) Unpin() { h.users.Add(-1) }

// open opens the file and pins it, unless somebody else has opened it meanwhile. Who wants the same
// file waits; nobody else does. Were it not pinned, then of more files in use than may be open each
// would be closed again before it is read.
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
	// Handles.mu is taken under h.mu here; never the other way round
	file, err := h.of.openFile(h.mu.name, h.of.fs.OpenReadWrite)
	if err != nil {
		defer h.mu.Unlock()
		return false, err
	}
	h.file = file
	h.used.Store(true)
	h.users.Store(1)
	h.mu.Unlock()
	h.of.admit(h)
	return true, nil
}

// Keep opens the file and keeps it open until Release or Close: its name is about to change or to
// go.
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

// Release ends a Keep: name is the file's now.
func (h *Handle) Release(name string) {
	h.mu.Lock()
	h.mu.name = name
	h.mu.Unlock()
	h.kept.Store(false)
}

// Freeze says that the name may soon be another file's: a file that is not open is not opened any
// more, and one that is stays open until Close.
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
	// Behind the write, and before Unpin: set before it, a Sync that began and ended in between
	// would have taken it back.
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

// Sync implements File. A file that fails it stays open, as one that is not synced.
func (h *Handle) Sync() error {
	file, err := h.Pin()
	if err != nil {
		return err
	}
	defer h.Unpin()
	h.dirty.Store(false) // before: what is written beside it counts as unsynced
	if err := file.Sync(); err != nil {
		h.dirty.Store(true)
		return err
	}
	return nil
}

// Close implements File. Nobody uses the handle any more.
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
	h.of.forget(h)
	return file.Close()
}
