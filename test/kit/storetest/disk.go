package storetest

import "heartwood.dev/heartwood/internal/vfs"

// Disk is a filesystem that calls Step before each change of a file or a name, and after each sync.
// These are the moments at which the state changes that a power failure would leave. To simulate a
// power failure, Step clones the underlying vfs.Mem.
type Disk struct {
	vfs.FS
	// Step is called with an operation and the name of the file; for a rename, this is the old name.
	// The operation is "create", "rename", "remove", "remove-all", "write", "truncate", "sync" or
	// "sync-dir". After a sync, it is "synced" or "synced-dir". The goroutine that makes the change
	// calls Step.
	Step func(op, name string)
}

// Open implements vfs.FS.
func (d *Disk) Open(name string) (vfs.File, error) { return d.wrap(d.FS.Open(name)) }

// OpenReadWrite implements vfs.FS.
func (d *Disk) OpenReadWrite(name string) (vfs.File, error) {
	return d.wrap(d.FS.OpenReadWrite(name))
}

// Create implements vfs.FS.
func (d *Disk) Create(name string) (vfs.File, error) {
	d.Step("create", name)
	return d.wrap(d.FS.Create(name))
}

func (d *Disk) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d}, nil
}

// Rename implements vfs.FS.
func (d *Disk) Rename(oldName, newName string) error {
	d.Step("rename", oldName)
	return d.FS.Rename(oldName, newName)
}

// Remove implements vfs.FS.
func (d *Disk) Remove(name string) error {
	d.Step("remove", name)
	return d.FS.Remove(name)
}

// RemoveAll implements vfs.FS.
func (d *Disk) RemoveAll(name string) error {
	d.Step("remove-all", name)
	return d.FS.RemoveAll(name)
}

// SyncDir implements vfs.FS.
func (d *Disk) SyncDir(name string) error {
	d.Step("sync-dir", name)
	err := d.FS.SyncDir(name)
	d.Step("synced-dir", name)
	return err
}

// file is a file of a Disk.
type file struct {
	vfs.File
	disk *Disk
}

func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	f.disk.Step("write", f.Name())
	return f.File.WriteAt(p, offset)
}

func (f *file) Truncate(size int64) error {
	f.disk.Step("truncate", f.Name())
	return f.File.Truncate(size)
}

func (f *file) Sync() error {
	f.disk.Step("sync", f.Name())
	err := f.File.Sync()
	f.disk.Step("synced", f.Name())
	return err
}
