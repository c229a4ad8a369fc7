package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/compress"
)

// Parts is one whole batch, whose bytes may be spread over several pieces of memory. A batch that
// the broker compresses stays in the compressor's output chunks until it is written to the file.
//
// The embedded Batch is the first piece. It contains the whole header, so the accessors and setters
// of header fields work. Records, CheckCRC and len give correct results only if Rest is empty.
type Parts struct {
	Batch
	Rest [][]byte // the pieces after the first, in order
}

// Whole returns the Parts of a contiguous batch.
func Whole(b Batch) Parts { return Parts{Batch: b} }

// SizeBytes returns the size of the whole batch in bytes.
func (p Parts) SizeBytes() int {
	size := len(p.Batch)
	for _, piece := range p.Rest {
		size += len(piece)
	}
	return size
}

// AppendTo appends a copy of the batch to dst.
func (p Parts) AppendTo(dst []byte) []byte {
	dst = append(dst, p.Batch...)
	for _, piece := range p.Rest {
		dst = append(dst, piece...)
	}
	return dst
}

// partsOf returns a batch that is stored in chunks. The first bytes of the chunks are reserved for
// the header.
func partsOf(chunks *compress.Chunks) Parts {
	pieces := chunks.Pieces()
	return Parts{Batch: Batch(pieces[0]), Rest: pieces[1:]}
}

// seal sets the length and then the checksum, over all pieces. The caller must call seal after
// every other change to the batch.
func (p Parts) seal() error {
	size := p.SizeBytes()
	if size-lengthEnd > math.MaxInt32 {
		return fmt.Errorf("build batch: %d bytes exceed the largest batch length", size)
	}
	binary.BigEndian.PutUint32(p.Batch[lengthAt:], uint32(size-lengthEnd))
	p.setCRC(p.Rest...)
	return nil
}
