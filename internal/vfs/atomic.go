package vfs

import (
	"fmt"
	"path/filepath"
)

// TemporarySuffix ends the names of the files that WriteFileAtomic writes before it renames them.
// After a crash they may be left over, and may be deleted.
const TemporarySuffix = ".tmp"

// WriteFileAtomic replaces a file's content so that a crash leaves the old or the new: temporary
// file, sync, rename, sync of the directory. When it fails the old content is still there, except
// after a failed sync of the directory: then it is either. One goroutine at a time may write a
// given file.
func WriteFileAtomic(fsys FS, name string, content []byte) error {
	temporary := name + TemporarySuffix
	if err := writeSynced(fsys, temporary, content); err != nil {
		// The leftover is harmless, and on a full disk removing it is all that helps; that it fails
		// too changes nothing.
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

// writeSynced makes a file with the content and syncs it.
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
