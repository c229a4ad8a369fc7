package vfs

import (
	"io"
	"io/fs"
	"time"
)

// memFile is an open file of a Mem. It refers to its node, not to the name, so it remains usable
// after the name is removed or replaced.
type memFile struct {
	fs       *Mem
	node     *memNode
	name     string
	writable bool
	closed   bool // guarded by fs.mu
}

// Name implements File.
func (f *memFile) Name() string { return f.name }

// ReadAt implements File.
func (f *memFile) ReadAt(p []byte, offset int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usableLocked("read", false, offset); err != nil {
		return 0, err
	}
	if offset >= int64(len(f.node.content)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.content[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements File.
func (f *memFile) WriteAt(p []byte, offset int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usableLocked("write", true, offset); err != nil {
		return 0, err
	}
	f.node.write(p, offset)
	return len(p), nil
}

// Size implements File.
func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usableLocked("stat", false, 0); err != nil {
		return 0, err
	}
	return int64(len(f.node.content)), nil
}

// Truncate implements File.
func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usableLocked("truncate", true, size); err != nil {
		return err
	}
	f.node.truncate(size)
	return nil
}

// Sync implements File.
func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usableLocked("sync", false, 0); err != nil {
		return err
	}
	f.node.sync()
	return nil
}

// Close implements File.
func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usableLocked("close", false, 0); err != nil {
		return err
	}
	f.closed = true
	return nil
}

// usableLocked returns the error that an operating system would return. The error occurs if the
// file is closed, the operation writes to a file that was opened for reading, or the offset is
// negative.
func (f *memFile) usableLocked(op string, write bool, offset int64) error {
	switch {
	case f.closed:
		return pathError(op, f.name, fs.ErrClosed)
	case write && !f.writable:
		return pathError(op, f.name, fs.ErrPermission)
	case offset < 0:
		return pathError(op, f.name, fs.ErrInvalid)
	}
	return nil
}

// write copies p into the content at offset. It fills a gap between the old end and offset with
// zeros.
func (n *memNode) write(p []byte, offset int64) {
	if len(p) == 0 {
		return
	}
	from := min(offset, int64(len(n.content)))
	end := offset + int64(len(p))
	n.grow(end)
	copy(n.content[offset:], p)
	for i := offset; i < min(end, int64(len(n.lost))); i++ {
		n.lost[i] = false
	}
	n.markDirty(from, end)
}

// truncate shortens or extends the file. It marks the extended part as changed, so a crash may lose
// that part, or keep it as zeros.
func (n *memNode) truncate(size int64) {
	from := min(size, int64(len(n.content)))
	n.content = n.content[:from]
	n.lost = n.lost[:min(from, int64(len(n.lost)))]
	n.grow(size)
	n.markDirty(from, size)
}

// grow extends the content with zeros to the given size. It does not shorten the content.
func (n *memNode) grow(size int64) {
	if missing := size - int64(len(n.content)); missing > 0 {
		n.content = append(n.content, make([]byte, missing)...)
	}
}

// markDirty extends the range that may differ from the synced content to include [from, to).
func (n *memNode) markDirty(from, to int64) {
	if n.dirtyFrom == n.dirtyTo {
		n.dirtyFrom, n.dirtyTo = from, to
	}
	n.dirtyFrom, n.dirtyTo = min(n.dirtyFrom, from), max(n.dirtyTo, to)
	n.mtime = time.Now()
}

// sync makes the content durable. It copies only the changed range, because otherwise a test that
// repeatedly appends to a file and syncs it would take quadratic time.
func (n *memNode) sync() {
	size := int64(len(n.content))
	if len(n.lost) > 0 {
		n.syncExceptLost()
		return
	}
	if int64(len(n.synced)) > size {
		n.synced = n.synced[:size]
	}
	from := min(n.dirtyFrom, int64(len(n.synced)))
	to := min(n.dirtyTo, size)
	if missing := size - int64(len(n.synced)); missing > 0 {
		n.synced = append(n.synced, make([]byte, missing)...)
		to = size
	}
	if from < to {
		copy(n.synced[from:to], n.content[from:to])
	}
	n.dirtyFrom, n.dirtyTo = 0, 0
	n.syncedMtime = n.mtime
}

// syncExceptLost is like sync, for a file in which LoseUnsynced has dropped bytes. These bytes keep
// their old durable content, or become zeros beyond the old size.
func (n *memNode) syncExceptLost() {
	before := n.synced
	n.synced = append([]byte{}, n.content...)
	for i, lost := range n.lost {
		if lost {
			n.synced[i] = 0
			if i < len(before) {
				n.synced[i] = before[i]
			}
		}
	}
	n.dirtyFrom, n.dirtyTo = 0, 0
	n.syncedMtime = n.mtime
}

// LoseUnsynced simulates the effect of a failed sync on Linux. The kernel marks the unsynced pages
// as clean: reads still return their new content from the page cache, but no later sync writes them
// to the disk. Only bytes that are written again can reach the disk.
func (m *Mem) LoseUnsynced(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.fileLocked(name)
	if err != nil {
		return pathError("lose", name, err)
	}
	lost := make([]bool, len(n.content))
	copy(lost, n.lost)
	for i := range n.content {
		lost[i] = lost[i] || i >= len(n.synced) || n.content[i] != n.synced[i]
	}
	n.lost = lost
	n.dirtyFrom, n.dirtyTo = 0, 0
	return nil
}
