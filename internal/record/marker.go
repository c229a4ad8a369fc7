package record

import (
	"fmt"

	"heartwood.dev/heartwood/internal/compress"
)

// String returns abort, commit, or the number.
func (t ControlType) String() string {
	switch t {
	case ControlAbort:
		return "abort"
	case ControlCommit:
		return "commit"
	}
	return fmt.Sprintf("type %d", int16(t))
}

// markerBytesMax is how much the record of a control batch may have: markers have some twenty
// bytes.
const markerBytesMax = 1 << 10

// Marker returns the marker that a control batch holds; ok is false for a batch that ends no
// transaction: one of data, one that cleaning has emptied, or a control record of another type. It
// fails with ErrCorrupt if the record is none.
func (b Batch) Marker() (m Control, ok bool, err error) {
	if !b.Control() || b.Count() == 0 {
		return Control{}, false, nil
	}
	// Its first record counts; Kafka reads no other.
	first := true
	err = b.Records(markerBytesMax, func(r *Record) error {
		if !first {
			return nil // there is one record in a control batch
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

// AppendMarker appends the control batch of a marker to dst, written at ms. Of id it takes the
// offsets, epochs, producer and timestamp type: a marker is one record, transactional, without a
// sequence number.
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
