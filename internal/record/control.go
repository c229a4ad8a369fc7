package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType is the type of a control record.
type ControlType int16

// These types end a transaction. Kafka's controllers use other types, and Kafka may add more, so
// readers must keep records of an unknown type.
const (
	ControlAbort  ControlType = 0
	ControlCommit ControlType = 1
)

// controlVersion is the version of a control record's key and value. Later versions may only append
// fields, so readers treat all versions alike.
const controlVersion = 0

// Control is the content of a control record. A transaction coordinator writes such a record, the
// marker, to each partition of a transaction.
type Control struct {
	Type ControlType
	// CoordinatorEpoch is the epoch of the transaction coordinator that wrote the marker. It is 0 for
	// types other than abort and commit.
	CoordinatorEpoch int32
}

// ParseControl decodes a record of a control batch (KIP-98). The key is {i16 version, i16 type};
// the value of an abort or a commit is {i16 version, i32 coordinator epoch}. An unknown type is not
// an error, and its value is ignored. ParseControl returns an error that wraps ErrCorrupt if the
// key or a marker's value is too short or has a negative version.
func ParseControl(r *Record) (Control, error) {
	if len(r.Key) < 4 || int16(binary.BigEndian.Uint16(r.Key)) < controlVersion {
		return Control{}, fmt.Errorf("%w: control record at offset %d with key %x", ErrCorrupt,
			r.Offset, r.Key)
	}
	control := Control{Type: ControlType(binary.BigEndian.Uint16(r.Key[2:]))}
	if control.Type != ControlAbort && control.Type != ControlCommit {
		return control, nil
	}
	if len(r.Value) < 6 || int16(binary.BigEndian.Uint16(r.Value)) < controlVersion {
		return Control{}, fmt.Errorf("%w: marker at offset %d with value %x", ErrCorrupt, r.Offset,
			r.Value)
	}
	control.CoordinatorEpoch = int32(binary.BigEndian.Uint32(r.Value[2:]))
	return control, nil
}

// Bytes returns the key and value of a control record in version 0. The value is nil for types
// other than abort and commit.
func (c Control) Bytes() (key, value []byte) {
	key = binary.BigEndian.AppendUint16(key, controlVersion)
	key = binary.BigEndian.AppendUint16(key, uint16(c.Type))
	if c.Type != ControlAbort && c.Type != ControlCommit {
		return key, nil
	}
	value = binary.BigEndian.AppendUint16(value, controlVersion)
	return key, binary.BigEndian.AppendUint32(value, uint32(c.CoordinatorEpoch))
}
