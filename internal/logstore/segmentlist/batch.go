package segmentlist

import (
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// Batch is a batch in a segment.
type Batch struct {
	Handle *Handle
	Header segment.Header
}

// Records yields the records of a batch while it decompresses the batch from its file. Only one
// record is in memory at a time, so a lookup in a batch of 1 GiB needs as little memory as a lookup
// in a small batch. If the caller stops early, the remaining records are not read.
func (p Batch) Records() iter.Seq2[*record.Record, error] {
	payload := io.NewSectionReader(p.Handle.File(), p.Header.Position+record.HeaderBytes,
		int64(p.Header.SizeBytes-record.HeaderBytes))
	return func(yield func(*record.Record, error) bool) {
		for r, err := range p.Header.Stream(payload, DecompressedBytesMax) {
			if err != nil {
				err = fmt.Errorf("read the records of the batch at %d of segment %d: %w",
					p.Header.Position, p.Handle.Base(), err)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// CheckCRC fails with record.ErrCorrupt if the stored bytes of the batch do not match its checksum.
func (p Batch) CheckCRC() error {
	if whole := p.Header.Batch; len(whole) == p.Header.SizeBytes {
		if err := whole.CheckCRC(); err != nil {
			return fmt.Errorf("the batch at %d of segment %d: %w", p.Header.Position,
				p.Handle.Base(), err)
		}
		return nil
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	stored := io.NewSectionReader(p.Handle.File(), p.Header.Position+crcEnd,
		int64(p.Header.SizeBytes-crcEnd))
	if _, err := io.Copy(sum, stored); err != nil {
		return fmt.Errorf("read the batch at %d of segment %d: %w", p.Header.Position,
			p.Handle.Base(), err)
	}
	if sum.Sum32() != p.Header.CRC() {
		return fmt.Errorf("%w: the batch at %d of segment %d does not match its checksum",
			record.ErrCorrupt, p.Header.Position, p.Handle.Base())
	}
	return nil
}

// crcEnd is the position after the checksum field of a batch, at which the checksummed bytes begin.
const crcEnd = 21

// DecompressedBytesMax is the maximum decompressed size of a produced batch, unless its topic
// allows larger messages. 64 MiB is far more than any client puts into a batch of 1 MiB. The limit
// bounds the cost of a hostile batch.
const DecompressedBytesMax = 64 << 20
