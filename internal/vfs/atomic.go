package vfs

import (
	"fmt"
	"path/filepath"
)

// TemporarySuffix is the suffix of the files that WriteFileAtomic writes before it renames them.
// After a crash, such files may remain; they can be deleted.
const TemporarySuffix = ".tmp"

// WriteFileAtomic replaces the content of a file so that a crash leaves either the old or the new
// content. It writes a temporary file, syncs it, renames it, and syncs the directory. If it fails,
// the file keeps its old content, with one exception: if syncing the directory fails, the file has
// the new content, and a crash may restore the old content. Only one goroutine at a time may write
// a given file.
func WriteFileAtomic(fsys FS, name string, content []byte) error {
	temporary := name + TemporarySuffix
	if err := writeSynced(fsys, temporary, content); err != nil {
		// Remove the temporary file, because it uses space on a disk that may be full. Ignore an error of
		// Remove, because a temporary file is harmless.
		_ = fsys.Remove(temporary)
		return fmt.Errorf("write %s: %w", temporary, err)
	}
	if err := fsys.Rename(temporary, name); err != nil {
		_ = fsys.Remove(temporary)
		return fmt.Errorf("rename %s into place: %w", temporary, err)
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("sync directory of %s: %w", name, err)
	}
	return nil
}

// writeSynced creates a file with the given content and syncs it.
func writeSynced(fsys FS, name string, content []byte) error {
	file, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(content, 0); err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
