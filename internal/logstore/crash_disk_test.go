package logstore

import (
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"

	"heartwood.dev/heartwood/internal/vfs"
)

// crashDisk is a disk in memory whose power may fail at every moment that matters: before and after
// each sync, and before each other change of a file or a name. moment is called at each of them, by
// the goroutine that makes the change.
type crashDisk struct {
	vfs.FS
	mem    *vfs.Mem
	moment func(what, name string)
	// acting is held by the workload during an act. The store's own goroutine deletes released
	// directories only between two acts, so that a seed gives the same run each time.
	acting sync.Mutex
}

func newCrashDisk(mem *vfs.Mem, moment func(what, name string)) *crashDisk {
	return &crashDisk{FS: mem, mem: mem, moment: moment}
}

func (d *crashDisk) Open(name string) (vfs.File, error) { return d.wrap(d.FS.Open(name)) }

func (d *crashDisk) OpenReadWrite(name string) (vfs.File, error) {
	return d.wrap(d.FS.OpenReadWrite(name))
}

func (d *crashDisk) Create(name string) (vfs.File, error) {
	d.moment("create", name)
	return d.wrap(d.FS.Create(name))
}

func (d *crashDisk) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &crashFile{File: file, disk: d}, nil
}

func (d *crashDisk) Rename(oldName, newName string) error {
	d.moment("rename", oldName)
	return d.FS.Rename(oldName, newName)
}

func (d *crashDisk) Remove(name string) error {
	d.moment("remove", name)
	return d.FS.Remove(name)
}

func (d *crashDisk) RemoveAll(name string) error {
	if strings.HasSuffix(name, deleteSuffix) {
		d.acting.Lock()
		defer d.acting.Unlock()
	}
	d.moment("remove-all", name)
	return d.FS.RemoveAll(name)
}

func (d *crashDisk) SyncDir(name string) error {
	d.moment("sync-dir", name)
	err := d.FS.SyncDir(name)
	d.moment("synced-dir", name)
	return err
}

// crashFile is a file of a crashDisk.
type crashFile struct {
	vfs.File
	disk *crashDisk
}

func (f *crashFile) WriteAt(p []byte, offset int64) (int, error) {
	f.disk.moment("write", f.Name())
	return f.File.WriteAt(p, offset)
}

func (f *crashFile) Truncate(size int64) error {
	f.disk.moment("truncate", f.Name())
	return f.File.Truncate(size)
}

func (f *crashFile) Sync() error {
	f.disk.moment("sync", f.Name())
	err := f.File.Sync()
	f.disk.moment("synced", f.Name())
	return err
}

// crashed returns the disk as a power failure leaves it: a random part of the unsynced changes is
// kept, in one case of four none.
func crashed(mem *vfs.Mem, random *rand.Rand) *vfs.Mem {
	if random.IntN(4) == 0 {
		return mem.CrashClone()
	}
	return mem.CrashClonePartly(random.Uint64())
}

// leftovers lists files in partitions' directories that a start has to have removed.
func leftovers(fsys vfs.FS) (names []string, err error) {
	dirs, err := fsys.ReadDir(dataDir)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if _, ok := parsePartition(dir.Name()); !ok || !dir.IsDir() {
			continue
		}
		var entries []fs.DirEntry
		if entries, err = fsys.ReadDir(dataDir + "/" + dir.Name()); err != nil {
			return nil, err
		}
		for _, entry := range entries {
			for _, suffix := range []string{cleanedSuffix, swapSuffix, deletedSuffix,
				vfs.TemporarySuffix} {
				if strings.HasSuffix(entry.Name(), suffix) {
					names = append(names, dir.Name()+"/"+entry.Name())
				}
			}
		}
	}
	return names, nil
}
