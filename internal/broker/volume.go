package broker

import "heartwood.dev/heartwood/internal/pressure"

// sizer is a file system that can report its size.
type sizer interface {
	// Size returns the size in bytes of the file system that contains the named file.
	Size(name string) (uint64, error)
}

// volume returns the size of the data directory's file system, and the space that this process can
// still use in it, in bytes. An unknown value is -1.
func (b *Broker) volume() (total, usable int64) {
	total, usable = -1, -1
	if free, err := b.opts.FS.Free(b.opts.DataDir); err == nil {
		usable = int64(free)
	}
	if fs, ok := b.opts.FS.(sizer); ok {
		if size, err := fs.Size(b.opts.DataDir); err == nil {
			total = int64(size)
		}
	}
	return total, usable
}

// measureVolume returns a measurement of the volume. Its size is 0 if the size or the free space is
// unknown.
func (b *Broker) measureVolume() pressure.Volume {
	total, usable := b.volume()
	if total <= 0 || usable < 0 {
		return pressure.Volume{}
	}
	return pressure.Volume{Total: total, Free: min(usable, total)}
}
