package clean

import (
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// cacheBytes is the size of the pieces of a segment for which cacheUse records whether they were in
// the page cache.
const cacheBytes = 1 << 20

// cacheUse keeps the reads of a pass over one segment out of the page cache (F10, ADR 0112).
// Otherwise a pass over a large log would evict the recently appended data that consumers read.
// Data that was cached before the pass remains cached.
type cacheUse struct {
	file *vfs.Handle
	size int64
	// warm contains the pieces of cacheBytes that had a cached page at the start of the pass. It is
	// nil if the platform cannot report cached pages. Then nothing is evicted explicitly.
	warm bitmap
}

// newCacheUse queries the cached pages of a segment. It must be called before the pass reads any
// part of the segment, because the kernel reads ahead.
func newCacheUse(s *segment.Segment) cacheUse {
	u := cacheUse{file: s.File(), size: s.SizeBytes()}
	warm := newBitmap(uint32(u.size/cacheBytes) + 1)
	for position := int64(0); position < u.size; position += cacheBytes {
		bytes, ok := vfs.Cached(u.file, position, min(cacheBytes, u.size-position))
		if !ok {
			return u
		}
		if bytes > 0 {
			warm.set(uint32(position / cacheBytes))
		}
	}
	u.warm = warm
	return u
}

// read evicts the pages in [from, to), which the pass has just read, unless they were cached before
// the pass.
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

// uncache evicts output segments from the page cache. It syncs the segments first, because only
// synced pages can be evicted. The commit requires the sync anyway.
func uncache(segments []*segment.Segment) error {
	for _, s := range segments {
		if err := s.Sync(); err != nil {
			return err
		}
		vfs.Uncache(s.File(), 0, s.SizeBytes())
	}
	return nil
}
