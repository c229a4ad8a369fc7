package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// memFree is the free space that Mem reports. Mem has no size limit; a test that needs a full disk
// uses Fault.
const memFree = 1 << 40

// Mem is an in-memory filesystem with exactly the durability that POSIX guarantees: see CrashClone.
// Relative names start at its root, which always exists and is durable.
type Mem struct {
	// mu guards every node of the tree. A single lock is fast enough for tests, and CrashClone
	// holds it to copy a consistent state.
	mu      sync.Mutex
	root    *memNode
	pending []memChange // directory changes that SyncDir has not made durable yet, oldest first
	locked  map[*memNode]bool
	boots   int // number of power cuts
}

var _ FS = (*Mem)(nil)

// memNode is a file or a directory. Its names are stored in the entries of its parent directories.
// A node exists as long as an entry or an open file refers to it.
type memNode struct {
	dir     bool
	entries map[string]*memNode // current entries of a directory
	durable map[string]*memNode // entries of a directory after a crash

	// The following fields are for files. Invariant: content and synced are equal outside [dirtyFrom,
	// dirtyTo), up to the shorter length.
	content, synced    []byte
	lost               []bool // bytes that LoseUnsynced has dropped; may be nil
	dirtyFrom, dirtyTo int64
	mtime, syncedMtime time.Time
}

// memChange is one atomic change of directory entries: a rename changes two entries, and any other
// operation changes one.
type memChange struct {
	edges []memEdge
	nodes []*memNode // the nodes with these names before and after the change
}

// memEdge is the change of one directory entry: the name now refers to the node, or is removed if
// node is nil.
type memEdge struct {
	dir  *memNode
	name string
	node *memNode
}

// NewMem returns an empty filesystem.
func NewMem() *Mem {
	return &Mem{root: newMemDir(), locked: map[*memNode]bool{}}
}

// newMemDir returns an empty directory without a name.
func newMemDir() *memNode {
	return &memNode{dir: true, entries: map[string]*memNode{}, durable: map[string]*memNode{},
		mtime: time.Now()}
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.open("open", name, false) }

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.open("open", name, true) }

func (m *Mem) open(op, name string, writable bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.fileLocked(name)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return &memFile{fs: m, node: node, name: name, writable: writable}, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.createLocked(name)
	if err != nil {
		return nil, pathError("create", name, err)
	}
	node.truncate(0)
	return &memFile{fs: m, node: node, name: name, writable: true}, nil
}

// ReadFile implements FS.
func (m *Mem) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.fileLocked(name)
	if err != nil {
		return nil, pathError("read", name, err)
	}
	return append([]byte{}, node.content...), nil
}

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return pathError("rename", oldName, m.renameLocked(oldName, newName))
}

// renameLocked changes both names in one memChange. So until one of the directories is synced, a
// crash keeps either both changes of a rename or neither.
func (m *Mem) renameLocked(oldName, newName string) error {
	from, node, err := m.namedLocked(oldName)
	if err != nil {
		return err
	}
	to, replaced, err := m.parentLocked(newName)
	switch {
	case err != nil:
		return err
	case replaced == node:
		return nil
	case replaced != nil && (replaced.dir || node.dir):
		return syscall.EEXIST // a rename can replace only a file, and only by a file
	}
	m.changeLocked(memEdge{from, path.Base(clean(oldName)), nil},
		memEdge{to, path.Base(clean(newName)), node})
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, node, err := m.namedLocked(name)
	if err == nil && len(node.entries) > 0 {
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	m.changeLocked(memEdge{dir, path.Base(clean(name)), nil})
	return nil
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, node, err := m.namedLocked(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // RemoveAll succeeds if the tree does not exist
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	m.emptyLocked(node)
	m.changeLocked(memEdge{dir, path.Base(clean(name)), nil})
	return nil
}

// emptyLocked removes the entries of a tree one by one, leaves first. So after a crash during
// RemoveAll, any part of the tree may remain.
func (m *Mem) emptyLocked(dir *memNode) {
	for _, name := range dir.names() {
		m.emptyLocked(dir.entries[name])
		m.changeLocked(memEdge{dir, name, nil})
	}
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir := m.root
	for _, part := range strings.FieldsFunc(clean(name), isSlash) {
		next := dir.entries[part]
		if next == nil {
			next = newMemDir()
			m.changeLocked(memEdge{dir, part, next})
		}
		if !next.dir {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		dir = next
	}
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.dirLocked(name)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	entries := make([]fs.DirEntry, 0, len(dir.entries))
	for _, base := range dir.names() {
		entries = append(entries, fs.FileInfoToDirEntry(dir.entries[base].info(base)))
	}
	return entries, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.lookupLocked(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return node.info(path.Base(clean(name))), nil
}

// Chtimes implements FS.
func (m *Mem) Chtimes(name string, mtime time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.lookupLocked(name)
	if err != nil {
		return pathError("chtimes", name, err)
	}
	node.mtime = mtime
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.dirLocked(name)
	if err != nil {
		return pathError("sync", name, err)
	}
	m.syncDirLocked(dir)
	return nil
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.createLocked(name)
	if err == nil && m.locked[node] {
		err = ErrLocked
	}
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	m.locked[node] = true
	return &memLock{fs: m, node: node}, nil
}

// memLock is a lock that Mem.Lock has acquired. Close may be called several times.
type memLock struct {
	fs   *Mem
	node *memNode
	once sync.Once
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.fs.mu.Lock()
		defer l.fs.mu.Unlock()
		delete(l.fs.locked, l.node)
	})
	return nil
}

// Free implements FS.
func (m *Mem) Free(name string) (uint64, error) {
	if _, err := m.Stat(name); err != nil {
		return 0, err
	}
	return memFree, nil
}

// names returns the entries' names. They are sorted, so that test runs with the same seed are
// identical.
func (n *memNode) names() []string {
	names := make([]string, 0, len(n.entries))
	for name := range n.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
