package compress

import "sync"

// ChunkBytes is the size of a chunk. The largest block that a codec compresses in one piece (64 KiB
// of LZ4, which may grow a little) fits into an empty one, and with most batches all that becomes
// of them does.
const ChunkBytes = 128 << 10

// chunkPool keeps chunks between batches. What nobody takes for two garbage collections is freed,
// so it pins nothing.
var chunkPool = sync.Pool{New: func() any { return new([ChunkBytes]byte) }}

// chunkLists keeps the lists themselves, so that a batch allocates nothing.
var chunkLists = sync.Pool{New: func() any { return new(Chunks) }}

// Chunks is memory that a batch is compressed into: a list of chunks from a pool. It grows by a
// chunk, so that nothing which lies there is ever moved, as it would be in a buffer that doubles;
// and its size need not be known before.
//
// Invariant: no chunk but the last is empty, and their sizes sum up to Len.
type Chunks struct {
	pieces [][]byte // each the written part of a chunk
	size   int
}

// NewChunks returns an empty list. Release gives it back.
func NewChunks() *Chunks { return chunkLists.Get().(*Chunks) }

// Release gives back list and chunks. Neither may be used any more, nor anything that points into
// them. A nil list is none.
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

// Len is how many bytes were written; 0 of a nil list.
func (c *Chunks) Len() int {
	if c == nil {
		return 0
	}
	return c.size
}

// Pieces are the bytes written, in order, each but the last as much as a chunk took. They are valid
// until Release; those before the last do not change any more.
func (c *Chunks) Pieces() [][]byte { return c.pieces }

// Write appends p, over as many chunks as it takes. It never fails.
func (c *Chunks) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := copy(c.room(1), rest)
		c.extend(n)
		rest = rest[n:]
	}
	return len(p), nil
}

// Reserve appends n <= ChunkBytes bytes in one piece, whose content is whatever was there: a
// header, which can be filled in only once what follows it is known.
func (c *Chunks) Reserve(n int) []byte {
	room := c.room(n)
	c.extend(n)
	return room[:n:n]
}

// room returns all that is free behind the last byte, in one piece of at least n <= ChunkBytes
// bytes. A chunk with less is left as it is, and a new one begun. What is written there counts only
// after extend.
func (c *Chunks) room(n int) []byte {
	if last := len(c.pieces) - 1; last >= 0 && cap(c.pieces[last])-len(c.pieces[last]) >= n {
		return c.pieces[last][len(c.pieces[last]):cap(c.pieces[last])]
	}
	chunk := chunkPool.Get().(*[ChunkBytes]byte)
	c.pieces = append(c.pieces, chunk[:0])
	return chunk[:]
}

// extend counts n bytes of what room returned last as written.
func (c *Chunks) extend(n int) {
	last := len(c.pieces) - 1
	c.pieces[last] = c.pieces[last][:len(c.pieces[last])+n]
	c.size += n
}

// AppendTo appends a copy of what was written to dst.
func (c *Chunks) AppendTo(dst []byte) []byte {
	for _, piece := range c.pieces {
		dst = append(dst, piece...)
	}
	return dst
}
