package logstore

import (
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// batchAt is a batch in a segment.
type batchAt struct {
	handle *handle
	header segment.Header
}

// records yields the records of a batch while it decompresses the batch from its file. Only one
// record is in memory at a time, so a lookup in a batch of 1 GiB needs as little memory as one in a
// small batch. If the caller stops early, the remaining records are not read.
func (p batchAt) records() iter.Seq2[*record.Record, error] {
	payload := io.NewSectionReader(p.handle.File(), p.header.Position+record.HeaderBytes,
		int64(p.header.SizeBytes-record.HeaderBytes))
	return func(yield func(*record.Record, error) bool) {
		for r, err := range p.header.Stream(payload, decompressedBytesMax) {
			if err != nil {
				err = fmt.Errorf("read the records of the batch at %d of segment %d: %w",
					p.header.Position, p.handle.Base(), err)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// checkCRC fails with record.ErrCorrupt if the stored bytes of the batch contradict its checksum.
func (p batchAt) checkCRC() error {
	if whole := p.header.Batch; len(whole) == p.header.SizeBytes {
		if err := whole.CheckCRC(); err != nil {
			return fmt.Errorf("the batch at %d of segment %d: %w", p.header.Position,
				p.handle.Base(), err)
		}
		return nil
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	stored := io.NewSectionReader(p.handle.File(), p.header.Position+crcEnd,
		int64(p.header.SizeBytes-crcEnd))
	if _, err := io.Copy(sum, stored); err != nil {
		return fmt.Errorf("read the batch at %d of segment %d: %w", p.header.Position,
			p.handle.Base(), err)
	}
	if sum.Sum32() != p.header.CRC() {
		return fmt.Errorf("%w: the batch at %d of segment %d does not match its checksum",
			record.ErrCorrupt, p.header.Position, p.handle.Base())
	}
	return nil
}

// crcEnd is the position in a batch of the bytes that its checksum covers.
const crcEnd = 21

// decompressedBytesMax is the maximum decompressed size of a produced batch, unless its topic
// allows larger messages. 64 MiB is far above what any client puts into a batch of 1 MiB. The limit
// bounds the cost of a hostile batch.
const decompressedBytesMax = 64 << 20
