package clean

import (
	"bytes"
	"fmt"
	"io"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/record"
)

// deletion determines the records below the log start, which DeleteRecords has deleted. It decides
// this for each record and not for each batch, because personal data must not stay on disk while
// another record of its batch is live.
type deletion struct {
	logStart      int64
	batchBytesMax int
	io            *ioMeter
}

// records returns how many records at the start of a data batch were deleted. It reads the batch
// only if the log start is within the batch and an earlier pass has removed records from the batch,
// because the sidecar does not contain record offsets. At most one batch of a log contains the log
// start.
func (d deletion) records(plan *plan, b keys.Batch) (int, error) {
	switch {
	case b.Records == 0 || b.BaseOffset >= d.logStart:
		return 0, nil
	case b.LastOffset < d.logStart:
		return b.Records, nil
	case int64(b.Records) == b.LastOffset-b.BaseOffset+1:
		return int(d.logStart - b.BaseOffset), nil
	}
	batch, err := d.read(plan, b)
	if err != nil {
		return 0, err
	}
	deleted := 0
	payload := bytes.NewReader(batch[record.HeaderBytes:])
	for r, err := range batch.Stream(payload, decodeLimit(d.batchBytesMax, b)) {
		if err != nil {
			return 0, fmt.Errorf("read batch at position %d: %w", b.Position, err)
		}
		if r.Offset >= d.logStart {
			break
		}
		deleted++
	}
	if deleted > b.Records {
		return 0, &sidecarError{plan.segment, fmt.Sprintf(
			"batch at position %d has more records than its entry in the sidecar", b.Position)}
	}
	return deleted, nil
}

// read reads a batch and compares it with its entry in the sidecar.
func (d deletion) read(plan *plan, b keys.Batch) (record.Batch, error) {
	if b.Position < 0 || b.Position+int64(b.SizeBytes) > plan.segment.SizeBytes() {
		return nil, &sidecarError{plan.segment, fmt.Sprintf(
			"sidecar lists a batch of %d bytes at position %d", b.SizeBytes, b.Position)}
	}
	batch := make(record.Batch, b.SizeBytes)
	file := io.NewSectionReader(plan.segment.File(), b.Position, int64(b.SizeBytes))
	if _, err := io.ReadFull(file, batch); err != nil {
		return nil, fmt.Errorf("read segment %d at position %d: %w", plan.segment.Base(),
			b.Position, err)
	}
	plan.cache.read(b.Position, b.Position+int64(b.SizeBytes))
	if err := d.io.logRead(len(batch)); err != nil {
		return nil, err
	}
	reader := batchReader{plan: plan}
	return batch, reader.verify(readBatch{Batch: b, needed: b.SizeBytes}, batch)
}
