package vfs

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// This file contains the functions that find and change the nodes of a Mem. They record the changes
// that a crash would undo. Callers must hold Mem.mu.

// clean returns the canonical form of a name: absolute, without "." and "..".
func clean(name string) string { return path.Clean("/" + name) }

func isSlash(r rune) bool { return r == '/' }

// pathError wraps err in an fs.PathError, as package os does. It returns nil for nil. It does not
// change an error that already contains an fs.PathError.
func pathError(op, name string, err error) error {
	var already *fs.PathError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// parentLocked returns the directory of a name, and the name's node or nil if the name does not
// exist.
func (m *Mem) parentLocked(name string) (dir, node *memNode, err error) {
	dir = m.root
	parts := strings.FieldsFunc(clean(name), isSlash)
	if len(parts) == 0 {
		return nil, nil, syscall.EINVAL // the root has no parent
	}
	for _, part := range parts[:len(parts)-1] {
		next := dir.entries[part]
		switch {
		case next == nil:
			return nil, nil, fs.ErrNotExist
		case !next.dir:
			return nil, nil, syscall.ENOTDIR
		}
		dir = next
	}
	return dir, dir.entries[parts[len(parts)-1]], nil
}

// lookupLocked returns the node with a name, which can be the root. It fails if the name does not
// exist.
func (m *Mem) lookupLocked(name string) (*memNode, error) {
	if clean(name) == "/" {
		return m.root, nil
	}
	_, node, err := m.namedLocked(name)
	return node, err
}

// namedLocked returns the node with a name, which cannot be the root, and its directory. It fails
// if the name does not exist.
func (m *Mem) namedLocked(name string) (dir, node *memNode, err error) {
	dir, node, err = m.parentLocked(name)
	if err == nil && node == nil {
		err = fs.ErrNotExist
	}
	return dir, node, err
}

func (m *Mem) fileLocked(name string) (*memNode, error) {
	node, err := m.lookupLocked(name)
	if err == nil && node.dir {
		err = syscall.EISDIR
	}
	return node, err
}

func (m *Mem) dirLocked(name string) (*memNode, error) {
	node, err := m.lookupLocked(name)
	if err == nil && !node.dir {
		err = syscall.ENOTDIR
	}
	return node, err
}

// createLocked returns the file with a name. It creates an empty file if the name does not exist.
func (m *Mem) createLocked(name string) (*memNode, error) {
	dir, node, err := m.parentLocked(name)
	if err != nil {
		return nil, err
	}
	if node == nil {
		// A file that was never synced can survive a crash if its directory was synced. Its modification
		// time is then its creation time.
		now := time.Now()
		node = &memNode{mtime: now, syncedMtime: now}
		m.changeLocked(memEdge{dir, path.Base(clean(name)), node})
	}
	if node.dir {
		return nil, syscall.EISDIR
	}
	return node, nil
}

// changeLocked changes directory entries. Until SyncDir, a crash can undo the change.
func (m *Mem) changeLocked(edges ...memEdge) {
	change := memChange{edges: edges}
	for _, edge := range edges {
		for _, node := range []*memNode{edge.dir.entries[edge.name], edge.node} {
			if node != nil {
				change.nodes = append(change.nodes, node)
			}
		}
	}
	for _, edge := range edges {
		edge.set(edge.dir.entries)
		edge.dir.mtime = time.Now()
	}
	m.pending = append(m.pending, change)
}

func (e memEdge) set(entries map[string]*memNode) {
	if e.node == nil {
		delete(entries, e.name)
		return
	}
	entries[e.name] = e.node
}

// syncDirLocked makes the entries of one directory durable. If a rename has changed this directory
// and another one, the other directory's change stays pending, as POSIX permits.
func (m *Mem) syncDirLocked(dir *memNode) {
	var left []memChange
	for _, change := range m.pending {
		rest := memChange{nodes: change.nodes}
		for _, edge := range change.edges {
			if edge.dir != dir {
				rest.edges = append(rest.edges, edge)
				continue
			}
			edge.set(dir.durable)
		}
		if len(rest.edges) > 0 {
			left = append(left, rest)
		}
	}
	m.pending = slices.Clip(left)
}

// info returns a snapshot of a node's attributes.
func (n *memNode) info(name string) fs.FileInfo {
	return memInfo{name: name, size: int64(len(n.content)), dir: n.dir, mtime: n.mtime}
}

type memInfo struct {
	name  string
	size  int64
	dir   bool
	mtime time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.mtime }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
