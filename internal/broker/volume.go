package broker

import (
	"syscall"

	"heartwood.dev/heartwood/internal/vfs"
)

// volume returns the size of the data directory's file system, and the space in it that this
// process can still use, both in bytes. A value that is unknown is -1.
func (b *Broker) volume() (total, usable int64) {
	total, usable = -1, -1
	if free, err := b.opts.FS.Free(b.opts.DataDir); err == nil {
		usable = int64(free)
	}
	var stat syscall.Statfs_t
	if _, onDisk := b.opts.FS.(vfs.OS); onDisk && syscall.Statfs(b.opts.DataDir, &stat) == nil {
		//nolint:unconvert // the field types differ between systems
		total = int64(stat.Blocks) * int64(stat.Bsize)
	}
	return total, usable
}
