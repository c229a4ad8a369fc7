package clean

import (
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// cacheBytes is the granularity at which cacheUse knows what was in the page cache.
const cacheBytes = 1 << 20

// cacheUse leaves the page cache as the pass found it (F10). Consumers at the end of the log read
// recently appended data, which a pass over a cold log of a terabyte would evict. Data that was
// cached before remains cached (ADR 0112).
type cacheUse struct {
	file *vfs.Handle
	size int64
	// warm are the pieces of cacheBytes with a cached page at the start of the pass; nil: unknown,
	// and the kernel decides.
	warm bitmap
}

// newCacheUse queries the cached pages of a segment. It must be called before any of it is read,
// because the kernel reads ahead.
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

// read evicts the pages of [from, to), which were just read, unless they were cached before.
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

// cold reports whether less than half of the segment was cached.
func (u *cacheUse) cold() bool {
	return u.warm != nil && int64(u.warm.all())*2*cacheBytes < u.size
}

// uncache syncs output segments, which the commit requires anyway, and evicts them from the page
// cache.
func uncache(segments []*segment.Segment) error {
	for _, s := range segments {
		if err := s.Sync(); err != nil {
			return err
		}
		vfs.Uncache(s.File(), 0, s.SizeBytes())
	}
	return nil
}
