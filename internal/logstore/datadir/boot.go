package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"heartwood.dev/heartwood/internal/vfs"
)

// BootFile is a file in the data directory; see docs/internals/format/store.md.
const BootFile = "boot"

// Boot is the content of BootFile. It states that the machine has run without interruption since a
// broker process used the directory. The zero value states nothing.
type Boot struct {
	ID    string // vfs.FS.BootID
	Epoch int64  // broker epoch of the first process in this boot
}

// LoadBoot returns the content of BootFile if it belongs to the current boot. It durably removes a
// file of another boot, and a damaged one, so that the file is not valid again if the volume
// returns to its previous machine: this process may lose writes on the present one.
func LoadBoot(fsys vfs.FS, dir string) (Boot, error) {
	b, err := readBoot(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && b.ID == fsys.BootID() {
		return b, nil
	}
	if err := fsys.Remove(filepath.Join(dir, BootFile)); err != nil {
		return Boot{}, fmt.Errorf("remove %s: %w", BootFile, err)
	}
	return Boot{}, fsys.SyncDir(dir)
}

// readBoot reads BootFile.
func readBoot(fsys vfs.FS, dir string) (Boot, error) {
	content, err := fsys.ReadFile(filepath.Join(dir, BootFile))
	if err != nil {
		return Boot{}, fmt.Errorf("read %s: %w", BootFile, err)
	}
	values := fields(content, ":")
	b := Boot{ID: values["boot"]}
	b.Epoch, err = strconv.ParseInt(values["epoch"], 10, 64)
	if err != nil || !matchesSeal(content) || values["version"] != "0" || b.ID == "" || b.Epoch <= 0 {
		return Boot{}, fmt.Errorf("read %s: %w", BootFile, ErrMalformed)
	}
	return b, nil
}

// checkBoot is like readBoot, but accepts a missing file.
func checkBoot(fsys vfs.FS, dir string) error {
	_, err := readBoot(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Begin durably records the first broker epoch in the current boot, unless b contains it already.
// It changes nothing if the boot is unknown. After an error, b is the zero value.
func (b *Boot) Begin(fsys vfs.FS, dir string, epoch int64) error {
	id := fsys.BootID()
	if id == "" || b.ID == id || epoch <= 0 {
		return nil
	}
	*b = Boot{}
	if err := WriteBoot(fsys, dir, Boot{ID: id, Epoch: epoch}); err != nil {
		return err
	}
	*b = Boot{ID: id, Epoch: epoch}
	return nil
}

// WriteBoot durably writes BootFile, or removes the file if b is the zero value.
func WriteBoot(fsys vfs.FS, dir string, b Boot) error {
	name := filepath.Join(dir, BootFile)
	if b == (Boot{}) {
		if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", BootFile, err)
		}
		return fsys.SyncDir(dir)
	}
	content := fmt.Appendf(nil, "version: 0\nboot: %s\nepoch: %d\n", b.ID, b.Epoch)
	if err := vfs.WriteFileAtomic(fsys, name, seal(content)); err != nil {
		return fmt.Errorf("write %s: %w", BootFile, err)
	}
	return nil
}
