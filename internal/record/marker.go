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

// markerBytesMax limits the size of a control batch's record; a marker has about 20 bytes.
const markerBytesMax = 1 << 10

// Marker returns the transaction marker of a control batch. ok is false for a batch that ends no
// transaction: a data batch, a batch emptied by cleaning, or a control record of another type. The
// error wraps ErrCorrupt if the record is not a valid control record.
func (b Batch) Marker() (m Control, ok bool, err error) {
	if !b.Control() || b.Count() == 0 {
		return Control{}, false, nil
	}
	// Only the first record is read, as in Kafka.
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

// AppendMarker appends the control batch of marker m with timestamp ms to dst. Base offset, epochs,
// producer id and timestamp type are those of id. A marker is a single transactional record without
// a sequence number.
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
