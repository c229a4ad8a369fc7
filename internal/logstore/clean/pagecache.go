package clean

import (
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// cacheBytes is how large the pieces are of which it is known whether they were in the page cache.
const cacheBytes = 1 << 20

// cacheUse leaves the page cache as the pass found it (F10): consumers at the end of the log read
// what was appended a moment ago, and a pass over a cold log of a terabyte would push that out.
// What was in the cache before stays in it (ADR 0112).
type cacheUse struct {
	file *vfs.Handle
	size int64
	// warm are the pieces of which a page was cached when the pass came; nil: nobody knows, and the
	// kernel decides.
	warm bitmap
}

// newCacheUse asks what is cached of a segment, before any of it is read: the kernel reads ahead.
func newCacheUse(s *segment.Segment) cacheUse {
	u := cacheUse{file: s.File(), size: s.SizeBytes()}
	warm := newBitmap(uint32(u.size/cacheBytes) + 1)
	for at := int64(0); at < u.size; at += cacheBytes {
		bytes, ok := vfs.Cached(u.file, at, min(cacheBytes, u.size-at))
		if !ok {
			return u
		}
		if bytes > 0 {
			warm.set(uint32(at / cacheBytes))
		}
	}
	u.warm = warm
	return u
}

// read is told that [from, to) was read, and lets go of what was not there before.
func (u *cacheUse) read(from, to int64) {
	if u.warm == nil || from >= to {
		return
	}
	for piece := from / cacheBytes; piece <= (to-1)/cacheBytes; piece++ {
		if !u.warm.has(uint32(piece)) {
			vfs.Uncache(u.file, piece*cacheBytes, cacheBytes)
		}
	}
}

// cold tells whether less than half of the segment was cached.
func (u *cacheUse) cold() bool {
	return u.warm != nil && int64(u.warm.all())*2*cacheBytes < u.size
}

// letGo writes the output to the disk, where it goes before the commit anyway, and out of the page
// cache, if most of its sources were not there either.
func (o *output) letGo() error {
	if 2*o.coldSources <= len(o.group) {
		return nil
	}
	for _, piece := range o.pieces {
		if err := piece.segment.Sync(); err != nil {
			return err
		}
		vfs.Uncache(piece.segment.File(), 0, piece.segment.SizeBytes())
	}
	return nil
}
