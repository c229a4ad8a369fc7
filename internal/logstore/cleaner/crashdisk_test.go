package cleaner

import "heartwood.dev/heartwood/internal/vfs"

// crashDisk is a disk that calls before each of its changes, and after each sync: the moments at
// which a power cut can leave another state.
type crashDisk struct {
	vfs.FS
	before func(op, name string)
}

func (d *crashDisk) Open(name string) (vfs.File, error) { return d.wrap(d.FS.Open(name)) }

func (d *crashDisk) OpenReadWrite(name string) (vfs.File, error) {
	return d.wrap(d.FS.OpenReadWrite(name))
}

func (d *crashDisk) Create(name string) (vfs.File, error) {
	d.before("create", name)
	return d.wrap(d.FS.Create(name))
}

func (d *crashDisk) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &crashFile{File: file, disk: d}, nil
}

func (d *crashDisk) Rename(oldName, newName string) error {
	d.before("rename", oldName)
	return d.FS.Rename(oldName, newName)
}

func (d *crashDisk) Remove(name string) error {
	d.before("remove", name)
	return d.FS.Remove(name)
}

func (d *crashDisk) SyncDir(name string) error {
	d.before("sync-dir", name)
	err := d.FS.SyncDir(name)
	d.before("synced-dir", name)
	return err
}

// crashFile is a file of a crashDisk.
type crashFile struct {
	vfs.File
	disk *crashDisk
}

func (f *crashFile) WriteAt(p []byte, offset int64) (int, error) {
	f.disk.before("write", f.Name())
	return f.File.WriteAt(p, offset)
}

func (f *crashFile) Truncate(size int64) error {
	f.disk.before("truncate", f.Name())
	return f.File.Truncate(size)
}

func (f *crashFile) Sync() error {
	f.disk.before("sync", f.Name())
	err := f.File.Sync()
	f.disk.before("synced", f.Name())
	return err
}
