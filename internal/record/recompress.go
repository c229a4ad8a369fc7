package record

import (
	"fmt"
	"sync"

	"heartwood.dev/heartwood/internal/compress"
)

// memory is what a Valid lies in besides the client's own bytes: all of it from pools, nil where
// there is none.
type memory struct {
	buffer  *buffer          // of what was decompressed
	chunks  *compress.Chunks // of what was compressed
	builder *Builder         // of what was built record by record
}

// release gives all of it back.
func (m *memory) release() {
	m.dropBuffer()
	m.chunks.Release()
	if m.builder != nil {
		m.builder.recycle()
	}
	*m = memory{}
}

// dropBuffer gives the buffer back, for a batch that does not lie in it.
func (m *memory) dropBuffer() {
	if m.buffer != nil {
		m.buffer.release()
		m.buffer = nil
	}
}

// recompress makes the batch anew in another codec, from its payload as it is: the records stay as
// their producer encoded them, and need not be parsed and encoded again.
func (v *Valid) recompress(payload []byte, codec compress.Codec, level int,
	encode compress.Func) error {
	b := v.Batch
	var parts Parts
	// unpack left room for the header: the batch is whole where it was decompressed
	if codec == compress.None {
		parts = Whole(v.memory.buffer.bytes)
	} else {
		if encode == nil {
			encode = compress.To
		}
		v.memory.chunks = compress.NewChunks()
		v.memory.chunks.Reserve(HeaderBytes)
		if err := encode(v.memory.chunks, payload, codec, level); err != nil {
			return fmt.Errorf("recompress batch: %w", err)
		}
		// the payload lies there: it is not needed any more, and may be many megabytes
		v.memory.dropBuffer()
		parts = partsOf(v.memory.chunks)
	}
	// All of the header stays but the codec, the length and the checksum; the last two are seal's,
	// when nothing changes any more.
	copy(parts.Batch, b[:HeaderBytes])
	parts.setAttributes(IdentityOf(b).attributes(codec))
	v.Batch, v.Rest = parts.Batch, parts.Rest
	return nil
}

// builders keeps builders and their buffers between batches.
var builders = sync.Pool{New: func() any {
	return NewBuilder(compress.None,
		compress.LevelDefault)
}}

// rebuild makes the batch anew record by record, with offset deltas 0, 1, 2... They fit the old
// LastOffsetDelta, for checkHeader has seen that it is the count less one.
func (v *Valid) rebuild(payload []byte, codec compress.Codec, level int,
	encode compress.Func) error {
	builder := builders.Get().(*Builder)
	v.memory.builder = builder
	builder.SetCodec(codec, level)
	builder.CompressWith(encode)
	builder.Reset(IdentityOf(v.Batch))
	err := v.Batch.walkPayload(payload, func(r *Record) error {
		r.Offset = int64(builder.Count())
		builder.Add(r)
		return nil
	})
	if err != nil {
		return invalid("%v", err)
	}
	parts, err := builder.Encode()
	if err != nil {
		return err
	}
	v.memory.dropBuffer()
	v.Batch, v.Rest = parts.Batch, parts.Rest
	return nil
}

// recycle gives a builder back to the pool, unless one huge batch made it huge.
func (b *Builder) recycle() {
	b.Release()
	if b.SizeBytes() <= bufferBytesMax {
		builders.Put(b)
	}
}
