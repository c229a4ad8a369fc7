package vfs

// cachePieceBytes is the size of the pieces for which CacheUse records whether they were in the
// page cache.
const cachePieceBytes = 1 << 20

// CacheUse keeps the reads of one file out of the page cache. Ranges that were cached before remain
// cached, and other ranges are dropped after they have been read (ADR 0112).
type CacheUse struct {
	file File
	// warm contains, for each piece, whether a page of the piece was cached. It is nil if the platform
	// cannot report cached pages; then nothing is dropped.
	warm []bool
}

// NewCacheUse queries which pages in the first size bytes of a file are cached. It must be called
// before the caller reads any part of the file, because the kernel reads ahead.
func NewCacheUse(file File, size int64) *CacheUse {
	u := &CacheUse{file: file}
	warm := make([]bool, 0, size/cachePieceBytes+1)
	for position := int64(0); position < size; position += cachePieceBytes {
		bytes, ok := Cached(file, position, min(cachePieceBytes, size-position))
		if !ok {
			return u
		}
		warm = append(warm, bytes > 0)
	}
	u.warm = warm
	return u
}

// Drop drops the pieces whose end is in (from, to], the range that was just read, unless they were
// cached before. It keeps the piece that contains the end of the range, because the kernel may
// already have read ahead in it.
func (u *CacheUse) Drop(from, to int64) {
	u.drop(from/cachePieceBytes, min(to/cachePieceBytes, int64(len(u.warm))))
}

// DropAll drops all pieces that were not cached before.
func (u *CacheUse) DropAll() { u.drop(0, int64(len(u.warm))) }

func (u *CacheUse) drop(first, end int64) {
	for piece := first; piece < end; piece++ {
		if !u.warm[piece] {
			Uncache(u.file, piece*cachePieceBytes, cachePieceBytes)
		}
	}
}
