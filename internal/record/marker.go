package record

import (
	"fmt"

	"heartwood.dev/heartwood/internal/compress"
)

// String returns "abort", "commit" or "type N".
func (t ControlType) String() string {
	switch t {
	case ControlAbort:
		return "abort"
	case ControlCommit:
		return "commit"
	}
	return fmt.Sprintf("type %d", int16(t))
}

// markerBytesMax limits the size of the record in a control batch. A marker takes about 20 bytes.
const markerBytesMax = 1 << 10

// Marker returns the transaction marker in a control batch. ok is false if the batch ends no
// transaction: it is a data batch, cleaning has emptied it, or its control record has another type.
// The error wraps ErrCorrupt if the record is not a valid control record.
func (b Batch) Marker() (m Control, ok bool, err error) {
	if !b.Control() || b.Count() == 0 {
		return Control{}, false, nil
	}
	// Like Kafka, read only the first record.
	first := true
	err = b.Records(markerBytesMax, func(r *Record) error {
		if !first {
			return nil
		}
		first = false
		m, err = ParseControl(r)
		return err
	})
	if err != nil {
		return Control{}, false, fmt.Errorf("control batch at offset %d: %w", b.BaseOffset(), err)
	}
	return m, m.Type == ControlAbort || m.Type == ControlCommit, nil
}

// AppendMarker appends a control batch to dst, which contains the marker m with timestamp ms. It
// takes base offset, epochs, producer id and timestamp type from id. A marker is a single
// transactional record without a sequence number.
func AppendMarker(dst []byte, id Identity, ms int64, m Control) ([]byte, error) {
	id.LastOffsetDelta, id.BaseSequence = 0, -1
	id.Control, id.Transactional, id.DeleteHorizonMs = true, true, 0
	id.MaxTimestamp = ms
	r := Record{Offset: id.BaseOffset, Timestamp: ms}
	r.Key, r.Value = m.Bytes()
	b := NewBuilder(compress.None, compress.LevelDefault)
	b.Reset(id)
	b.Add(&r)
	return b.Build(dst)
}
