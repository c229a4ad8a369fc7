package record

import (
	"fmt"
	"sync"

	"heartwood.dev/heartwood/internal/compress"
)

// memory is the pooled memory that a Valid uses in addition to the request's own bytes. Each field
// may be nil.
type memory struct {
	buffer  *buffer          // decompressed records
	chunks  *compress.Chunks // compressed records
	builder *Builder         // builder of a batch that was rebuilt record by record
}

func (m *memory) release() {
	m.dropBuffer()
	m.chunks.Release()
	if m.builder != nil {
		m.builder.recycle()
	}
	*m = memory{}
}

// dropBuffer releases the buffer of decompressed records. The batch must not use the buffer any
// longer.
func (m *memory) dropBuffer() {
	if m.buffer != nil {
		m.buffer.release()
		m.buffer = nil
	}
}

// recompress replaces the batch by a batch that contains the same payload in another codec. It does
// not re-encode the records: they stay as their producer encoded them.
func (v *Valid) recompress(payload []byte, codec compress.Codec, level int,
	encode compress.Func) error {
	b := v.Batch
	var parts Parts
	// Complete the batch in the same buffer, because decompressPayload left space for the header
	// before the records.
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
		// Release the buffer: it contains the payload, which is no longer needed and may be many
		// megabytes.
		v.memory.dropBuffer()
		parts = partsOf(v.memory.chunks)
	}
	// Keep the header except for codec, length and checksum. seal sets the last two after all other
	// changes.
	copy(parts.Batch, b[:HeaderBytes])
	parts.setAttributes(IdentityOf(b).attributes(codec))
	v.Batch, v.Rest = parts.Batch, parts.Rest
	return nil
}

// builders keeps unused builders and their buffers.
var builders = sync.Pool{New: func() any {
	return NewBuilder(compress.None,
		compress.LevelDefault)
}}

// rebuild re-encodes the batch record by record with offset deltas 0, 1, 2... The last delta equals
// LastOffsetDelta, because checkHeader has verified that LastOffsetDelta is the number of records
// minus one.
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

// recycle returns the builder to the pool, unless its buffer has grown beyond bufferBytesMax for a
// large batch.
func (b *Builder) recycle() {
	b.Release()
	if b.SizeBytes() <= bufferBytesMax {
		builders.Put(b)
	}
}
