package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/compress"
)

// Parts is one whole batch whose bytes may lie in several pieces of memory: what was compressed
// here stays in the chunks it was compressed into until it is in the file.
//
// The embedded Batch is the first piece. It holds the header, so the accessors of header fields and
// the setters work; Records, CheckCRC and len do not, unless Rest is empty.
type Parts struct {
	Batch
	Rest [][]byte // the further pieces, in order
}

// Whole is a batch that lies in one piece.
func Whole(b Batch) Parts { return Parts{Batch: b} }

// SizeBytes is the size of the whole batch.
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

// partsOf is a batch in chunks, whose header was reserved first.
func partsOf(chunks *compress.Chunks) Parts {
	pieces := chunks.Pieces()
	return Parts{Batch: Batch(pieces[0]), Rest: pieces[1:]}
}

// seal writes the length and then the checksum, over all pieces: it is the last of the changes to a
// batch.
func (p Parts) seal() error {
	size := p.SizeBytes()
	if size-lengthEnd > math.MaxInt32 {
		return fmt.Errorf("build batch: %d bytes are more than a batch can hold", size)
	}
	binary.BigEndian.PutUint32(p.Batch[lengthAt:], uint32(size-lengthEnd))
	p.setCRC(p.Rest...)
	return nil
}
