package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType says what a control record tells.
type ControlType int16

// The types that end a transaction. There are others (Kafka's controllers have some), and there
// will be more: whoever meets one he does not know keeps it.
const (
	ControlAbort  ControlType = 0
	ControlCommit ControlType = 1
)

// controlVersion is of key and value. A later version may add fields behind those we know, so it is
// read as this one.
const controlVersion = 0

// Control is what a control record says: the marker a coordinator writes into each partition that a
// transaction wrote to.
type Control struct {
	Type ControlType
	// of the coordinator that wrote the marker; 0 for types other than abort and commit
	CoordinatorEpoch int32
}

// ParseControl reads a record of a control batch: the key is {i16 version, i16 type}, the value of
// an abort or a commit {i16 version, i32 coordinator epoch} (KIP-98). Types that we do not know are
// no error and their values are not looked at; a key or a marker that is too short wraps
// ErrCorrupt, and so does a negative version.
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

// Bytes returns the key and value of a control record, in version 0. The value of a type that is no
// marker is null.
func (c Control) Bytes() (key, value []byte) {
	key = binary.BigEndian.AppendUint16(key, controlVersion)
	key = binary.BigEndian.AppendUint16(key, uint16(c.Type))
	if c.Type != ControlAbort && c.Type != ControlCommit {
		return key, nil
	}
	value = binary.BigEndian.AppendUint16(value, controlVersion)
	return key, binary.BigEndian.AppendUint32(value, uint32(c.CoordinatorEpoch))
}
