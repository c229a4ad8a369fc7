package vfs

import (
	"fmt"
	"path/filepath"
)

// TemporarySuffix is the suffix of the files that WriteFileAtomic writes before it renames them. A
// crash may leave such files; they can be deleted.
const TemporarySuffix = ".tmp"

// WriteFileAtomic replaces a file's content so that a crash leaves either the old or the new
// content: temporary file, sync, rename, directory sync. When it fails the old content is still
// there, except after a failed directory sync: then it is either one. Only one goroutine at a time
// may write a given file.
func WriteFileAtomic(fsys FS, name string, content []byte) error {
	temporary := name + TemporarySuffix
	if err := writeSynced(fsys, temporary, content); err != nil {
		// The leftover is harmless, and on a full disk only its removal helps. If the removal fails
		// too, the result is the same.
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

// writeSynced creates a file with the content and syncs it.
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
