package compress

import "sync"

// ChunkBytes is the size of a chunk. The largest block that a codec compresses in one piece is 64
// KiB for LZ4, plus a small overhead; it fits in an empty chunk. So does the whole output for most
// batches.
const ChunkBytes = 128 << 10

// chunkPool keeps chunks between batches. A chunk that stays unused for two garbage collections is
// freed.
var chunkPool = sync.Pool{New: func() any { return new([ChunkBytes]byte) }}

// chunkLists keeps unused Chunks values, so that compressing a batch allocates no memory.
var chunkLists = sync.Pool{New: func() any { return new(Chunks) }}

// Chunks is the memory into which a batch is compressed: a list of pooled chunks. It grows by whole
// chunks, so the caller does not have to know the final size in advance. Unlike a slice that grows,
// it never moves the written data.
//
// Invariant: only the last chunk may be empty, and the sizes of all chunks add up to Len.
type Chunks struct {
	pieces [][]byte // the written part of each chunk
	size   int
}

// NewChunks returns an empty list. The caller must Release it.
func NewChunks() *Chunks { return chunkLists.Get().(*Chunks) }

// Release returns the list and its chunks to their pools. The list, its chunks and slices of them
// must not be used afterwards. Release of a nil list does nothing.
func (c *Chunks) Release() {
	if c == nil {
		return
	}
	for i, piece := range c.pieces {
		chunkPool.Put((*[ChunkBytes]byte)(piece[:ChunkBytes]))
		c.pieces[i] = nil
	}
	c.pieces, c.size = c.pieces[:0], 0
	chunkLists.Put(c)
}

// Len returns the number of bytes written; 0 for a nil list.
func (c *Chunks) Len() int {
	if c == nil {
		return 0
	}
	return c.size
}

// Pieces returns the written bytes in order, one slice per chunk. The slices are valid until
// Release. A further write changes only the last slice, or adds slices after it.
func (c *Chunks) Pieces() [][]byte { return c.pieces }

// Write appends p, and uses as many chunks as necessary. It never fails.
func (c *Chunks) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := copy(c.room(1), rest)
		c.extend(n)
		rest = rest[n:]
	}
	return len(p), nil
}

// Reserve appends n contiguous bytes with undefined contents (n <= ChunkBytes) and returns them.
// The caller reserves a header in this way, and fills it in when the data after the header are
// known.
func (c *Chunks) Reserve(n int) []byte {
	room := c.room(n)
	c.extend(n)
	return room[:n:n]
}

// room returns the free bytes of the last chunk, at least n (n <= ChunkBytes). If the last chunk
// has fewer free bytes, room adds a chunk first. The caller writes to the free bytes, and then
// calls extend to add them to the data.
func (c *Chunks) room(n int) []byte {
	if last := len(c.pieces) - 1; last >= 0 && cap(c.pieces[last])-len(c.pieces[last]) >= n {
		return c.pieces[last][len(c.pieces[last]):cap(c.pieces[last])]
	}
	chunk := chunkPool.Get().(*[ChunkBytes]byte)
	c.pieces = append(c.pieces, chunk[:0])
	return chunk[:]
}

// extend adds the first n bytes of the slice returned by room to the data.
func (c *Chunks) extend(n int) {
	last := len(c.pieces) - 1
	c.pieces[last] = c.pieces[last][:len(c.pieces[last])+n]
	c.size += n
}

// AppendTo appends a copy of the written bytes to dst.
func (c *Chunks) AppendTo(dst []byte) []byte {
	for _, piece := range c.pieces {
		dst = append(dst, piece...)
	}
	return dst
}
