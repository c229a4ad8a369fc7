package repair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/record"
)

// Source reads the log of another in-sync replica.
type Source interface {
	// Read returns complete batches, ascending. The first one contains the requested offset or is
	// the next one above it; it may omit batches without records. The result is empty if the replica
	// has no such batch below its high watermark. The result is valid until the next call.
	Read(ctx context.Context, offset int64) (batches []byte, err error)
}

// ErrSource is returned if another replica cannot replace the damaged batches: it does not have the
// records yet, or its batches have other offsets.
var ErrSource = errors.New("the other replica cannot replace the records")

// cursor reads batches of a Source and verifies their checksums. The offsets of successive calls
// must ascend.
type cursor struct {
	source Source
	pace   Pace
	rest   []byte // batches that were read and not returned yet
}

// next returns the first batch that ends at or above offset, and begins below the offset end. If
// the first batch at or above offset begins at or above end, found is false: the replica has
// removed all records of the range. An empty response does not prove that, and is an error. The
// batch is valid until the next call.
func (c *cursor) next(ctx context.Context, offset, end int64) (b record.Batch, found bool,
	err error) {
	for read := false; ; {
		for len(c.rest) > 0 {
			b, rest, err := record.Next(c.rest)
			if err != nil {
				return nil, false, fmt.Errorf("%w: at offset %d: %w", ErrSource, offset, err)
			}
			if b.LastOffset() >= offset {
				return c.check(b, end)
			}
			c.rest = rest
		}
		if read {
			return nil, false, fmt.Errorf("%w: it returned no batch from offset %d on", ErrSource,
				offset)
		}
		began := time.Now()
		got, err := c.source.Read(ctx, offset)
		if err == nil {
			err = c.pace.after(ctx, len(got), began)
		}
		if err != nil {
			return nil, false, err
		}
		c.rest, read = got, true
	}
}

// check verifies the checksum of a batch that begins below the offset end.
func (c *cursor) check(b record.Batch, end int64) (record.Batch, bool, error) {
	if b.BaseOffset() >= end {
		return nil, false, nil
	}
	if b.LastOffset() >= end {
		return nil, false, fmt.Errorf("%w: its batch of offsets %d to %d extends beyond %d",
			ErrSource, b.BaseOffset(), b.LastOffset(), end)
	}
	if err := b.CheckCRC(); err != nil {
		return nil, false, fmt.Errorf("%w: batch at offset %d: %w", ErrSource, b.BaseOffset(), err)
	}
	return b, true, nil
}
