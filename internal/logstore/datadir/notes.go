package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/vfs"
)

// ErrNotInMemory is returned for a damaged file whose content the process does not have in memory.
var ErrNotInMemory = errors.New("the content of the file is not in memory")

// Notes are the small files that a replica writes into its log's directory: the replica
// incarnation, the state of a copy from another replica, and the loss of records. Its methods may
// be called concurrently, but the caller orders the writes of one file.
type Notes struct {
	fs   vfs.FS
	dir  string
	loss atomic.Pointer[loss] // nil if no loss is known
	mu   sync.Mutex           // held while a file is written
	// content is the content of each file when Load read it or when it was last written; nil if the
	// file does not exist. It lacks a file whose last write failed. Guarded by mu.
	content map[string][]byte
}

// noteFiles are the names of the files.
var noteFiles = []string{AssignmentFile, CopySourceFile, CopyGapFile, LossFile}

// NewNotes returns the notes in a log's directory. It accesses no file.
func NewNotes(fsys vfs.FS, dir string) *Notes {
	return &Notes{fs: fsys, dir: dir, content: map[string][]byte{}}
}

// Load reads all files of a log that is opened. It replaces malformed files.
func (n *Notes) Load(logger *slog.Logger) error {
	if err := n.replaceDamaged(logger); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, file := range noteFiles {
		content, err := n.fs.ReadFile(filepath.Join(n.dir, file))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			n.content[file] = nil
		case err != nil:
			return fmt.Errorf("read %s: %w", file, err)
		default:
			n.content[file] = append([]byte{}, content...) // not nil, even if the file is empty
		}
	}
	stored, err := readLoss(n.fs, n.dir)
	n.loss.Store(stored)
	return err
}

// Known returns the content that this process last read from a file or wrote to it. ok is false if
// the file does not exist, or if its content is unknown.
func (n *Notes) Known(file string) (content []byte, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	content = n.content[file]
	return content, content != nil
}

// Rewrite durably replaces a damaged file by the content in memory, or removes the file if it
// should not exist. It fails with ErrNotInMemory if the content is unknown.
func (n *Notes) Rewrite(file string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	content, known := n.content[file]
	switch {
	case !known:
		return fmt.Errorf("%s: %w", file, ErrNotInMemory)
	case content == nil:
		return n.removeLocked(file)
	}
	return n.writeLocked(file, content)
}

// write durably replaces a file.
func (n *Notes) write(file string, content []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.writeLocked(file, content)
}

func (n *Notes) writeLocked(file string, content []byte) error {
	delete(n.content, file) // after a failure, the file has the old or the new content
	if err := vfs.WriteFileAtomic(n.fs, filepath.Join(n.dir, file), content); err != nil {
		return fmt.Errorf("write %s: %w: %w", file, segmentlist.ErrStorage, err)
	}
	n.content[file] = content
	return nil
}

// remove removes a file, if it exists.
func (n *Notes) remove(file string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.removeLocked(file)
}

func (n *Notes) removeLocked(file string) error {
	if err := n.fs.Remove(filepath.Join(n.dir, file)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w: %w", file, segmentlist.ErrStorage, err)
	}
	n.content[file] = nil
	return nil
}
