package producer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"
)

// The layout of a producer snapshot, which contains the State as of an offset in Kafka's format
// (docs/internals/format/store.md).
const (
	snapshotVersion = 1
	// The header contains the version, the CRC-32C of everything after the CRC, and the number of
	// entries.
	snapshotHeaderBytes = 2 + 4 + 4
	snapshotEntryBytes  = 46
	// snapshotTrailer follows the entries. The offset and each producer's older batches follow the
	// trailer. Kafka reads only the entries, and writes no trailer.
	snapshotTrailer      = "as of"
	snapshotTrailerBytes = len(snapshotTrailer) + 8
	snapshotOlderBytes   = 32 // size of one older batch
)

// ErrSnapshot is wrapped by every error about the content of a snapshot.
var ErrSnapshot = errors.New("malformed producer snapshot")

// ErrVersion is wrapped, in addition to ErrSnapshot, by the error about an intact snapshot of a
// later version. Such a file belongs to another program and must not be removed.
var ErrVersion = errors.New("unsupported version")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the snapshot of the state as of an offset. The snapshot contains the offset, and
// is therefore not accepted as the snapshot of another offset.
//
// Kafka stores only the last batch of each producer. After a restart, Kafka therefore rejects a
// repeated older batch as out of order, although a client repeats all of its up to five batches in
// flight. So Encode also stores the older batches, after the entries. Kafka does not read that part
// of the file.
func (s *State) Encode(offset int64) []byte {
	ids := slices.Sorted(maps.Keys(s.byID))
	out := make([]byte, 0, snapshotHeaderBytes+len(ids)*snapshotEntryBytes+snapshotTrailerBytes)
	out = binary.BigEndian.AppendUint16(out, snapshotVersion)
	out = binary.BigEndian.AppendUint32(out, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(len(ids)))
	for _, id := range ids {
		out = s.byID[id].appendEntry(out, id)
	}
	out = binary.BigEndian.AppendUint64(append(out, snapshotTrailer...), uint64(offset))
	for _, id := range ids {
		out = s.byID[id].appendOlder(out, id)
	}
	binary.BigEndian.PutUint32(out[2:], crc32.Checksum(out[6:], castagnoli))
	return out
}

// appendEntry appends one entry, with the fields of the table in docs/internals/format/store.md.
func (e *entry) appendEntry(out []byte, id int64) []byte {
	last := Batch{lastSequence: noSequence, LastOffset: -1}
	if len(e.batches) > 0 {
		last = e.batches[len(e.batches)-1]
	}
	out = binary.BigEndian.AppendUint64(out, uint64(id))
	out = binary.BigEndian.AppendUint16(out, uint16(e.epoch))
	out = binary.BigEndian.AppendUint32(out, uint32(last.lastSequence))
	out = binary.BigEndian.AppendUint64(out, uint64(last.LastOffset))
	out = binary.BigEndian.AppendUint32(out, uint32(last.offsetDelta))
	// Kafka expires a producer by this field. So the field contains the broker's time and not the
	// batch's timestamp, which the client chooses.
	out = binary.BigEndian.AppendUint64(out, uint64(e.lastSeen))
	out = binary.BigEndian.AppendUint32(out, uint32(e.coordinatorEpoch))
	return binary.BigEndian.AppendUint64(out, uint64(e.txnFirst))
}

// appendOlder appends the producer's batches except the last one, oldest first.
func (e *entry) appendOlder(out []byte, id int64) []byte {
	for _, b := range e.batches[:max(0, len(e.batches)-1)] {
		out = binary.BigEndian.AppendUint64(out, uint64(id))
		out = binary.BigEndian.AppendUint32(out, uint32(b.lastSequence))
		out = binary.BigEndian.AppendUint64(out, uint64(b.LastOffset))
		out = binary.BigEndian.AppendUint32(out, uint32(b.offsetDelta))
		out = binary.BigEndian.AppendUint64(out, uint64(b.Timestamp))
	}
	return out
}

// Decode decodes the snapshot for an offset. Every error wraps ErrSnapshot. Decode checks the
// number of entries against the size of the content before it allocates memory, because a damaged
// number must not exhaust the memory.
func Decode(content []byte, offset int64) (State, error) {
	if len(content) < snapshotHeaderBytes {
		return State{}, fmt.Errorf("%w: %d bytes", ErrSnapshot, len(content))
	}
	if binary.BigEndian.Uint32(content[2:]) != crc32.Checksum(content[6:], castagnoli) {
		return State{}, fmt.Errorf("%w: checksum does not match", ErrSnapshot)
	}
	switch version := binary.BigEndian.Uint16(content); {
	case version > snapshotVersion && !isOurs(content, offset):
		return State{}, fmt.Errorf("%w: %w %d", ErrSnapshot, ErrVersion, version)
	case version != snapshotVersion:
		return State{}, fmt.Errorf("%w: version %d", ErrSnapshot, version)
	}
	count := int64(binary.BigEndian.Uint32(content[6:]))
	entries := content[snapshotHeaderBytes:]
	if int64(len(entries)) < count*snapshotEntryBytes {
		return State{}, fmt.Errorf("%w: %d entries in %d bytes", ErrSnapshot, count, len(entries))
	}
	entries, trailer := entries[:count*snapshotEntryBytes], entries[count*snapshotEntryBytes:]
	older, err := checkTrailer(trailer, offset)
	if err != nil {
		return State{}, err
	}
	s := State{byID: make(map[int64]*entry, count)}
	for ; len(entries) > 0; entries = entries[snapshotEntryBytes:] {
		id, e := decodeEntry(entries)
		if id < 0 || e.txnFirst >= offset || len(e.batches) > 0 &&
			e.batches[0].LastOffset >= offset {
			return State{}, fmt.Errorf("%w: producer id %d, as of offset %d", ErrSnapshot, id,
				offset)
		}
		if s.byID[id] = e; e.txnFirst != NoTransaction {
			s.open = append(s.open, openTxn{id, e.txnFirst, time.UnixMilli(e.lastSeen)})
		}
	}
	if len(s.byID) != int(count) {
		return State{}, fmt.Errorf("%w: two entries of one producer", ErrSnapshot)
	}
	if err := s.insertOlder(older); err != nil {
		return State{}, err
	}
	slices.SortFunc(s.open, func(a, b openTxn) int { return cmp.Compare(a.first, b.first) })
	return s, nil
}

// isOurs reports whether a snapshot ends like one that this program has written. If its version is
// another one, a bit of the version has flipped, which the checksum does not cover: a Heartwood
// that writes another version raises the format level first.
func isOurs(content []byte, offset int64) bool {
	size := snapshotHeaderBytes + int64(binary.BigEndian.Uint32(content[6:]))*snapshotEntryBytes
	if size >= int64(len(content)) {
		return false
	}
	_, err := checkTrailer(content[size:], offset)
	return err == nil
}

// checkTrailer compares the offset in the trailer with the offset in the file's name, and returns
// the older batches. Snapshots that Kafka has written have no trailer.
func checkTrailer(trailer []byte, offset int64) (older []byte, err error) {
	if len(trailer) == 0 {
		return nil, nil
	}
	if len(trailer) < snapshotTrailerBytes ||
		string(trailer[:len(snapshotTrailer)]) != snapshotTrailer ||
		(len(trailer)-snapshotTrailerBytes)%snapshotOlderBytes != 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the entries", ErrSnapshot, len(trailer))
	}
	if position := int64(binary.BigEndian.Uint64(trailer[len(snapshotTrailer):])); position != offset {
		return nil, fmt.Errorf("%w: the content is as of offset %d, the name is of %d", ErrSnapshot,
			position, offset)
	}
	return trailer[snapshotTrailerBytes:], nil
}

// insertOlder inserts each older batch before its producer's last batch. The older batches are
// sorted by producer; one producer's batches are sorted from the oldest to the newest.
func (s *State) insertOlder(older []byte) error {
	be := binary.BigEndian
	for ; len(older) > 0; older = older[snapshotOlderBytes:] {
		id := int64(be.Uint64(older))
		b := Batch{
			lastSequence: int32(be.Uint32(older[8:])),
			LastOffset:   int64(be.Uint64(older[12:])),
			offsetDelta:  int32(be.Uint32(older[20:])),
			Timestamp:    int64(be.Uint64(older[24:])),
		}
		e := s.byID[id]
		if e == nil || len(e.batches) == 0 || len(e.batches) == batchesMax ||
			b.lastSequence < 0 || b.offsetDelta < 0 ||
			b.LastOffset < int64(b.offsetDelta) {
			return fmt.Errorf("%w: older batch of producer %d at %d", ErrSnapshot, id,
				b.LastOffset)
		}
		b.firstSequence = sequenceBefore(b.lastSequence, b.offsetDelta)
		last := len(e.batches) - 1
		e.batches = slices.Insert(e.batches, last, b)
		if b.LastOffset >= e.batches[last+1].LastOffset || last > 0 &&
			b.LastOffset <= e.batches[last-1].LastOffset {
			return fmt.Errorf("%w: older batches of producer %d are not in order", ErrSnapshot, id)
		}
	}
	return nil
}

// decodeEntry decodes one entry. If the entry has no last batch, the producer's current epoch has
// only a marker.
func decodeEntry(content []byte) (id int64, e *entry) {
	be := binary.BigEndian
	e = &entry{
		epoch:            int16(be.Uint16(content[8:])),
		lastSeen:         int64(be.Uint64(content[26:])),
		coordinatorEpoch: int32(be.Uint32(content[34:])),
		txnFirst:         max(int64(be.Uint64(content[38:])), NoTransaction),
	}
	last := Batch{
		lastSequence: int32(be.Uint32(content[10:])),
		LastOffset:   int64(be.Uint64(content[14:])),
		offsetDelta:  int32(be.Uint32(content[22:])),
		Timestamp:    e.lastSeen,
	}
	if last.lastSequence >= 0 && last.LastOffset >= 0 && last.offsetDelta >= 0 {
		last.firstSequence = sequenceBefore(last.lastSequence, last.offsetDelta)
		e.batches = []Batch{last}
	}
	return int64(be.Uint64(content)), e
}

// sequenceBefore returns the sequence number that is delta before last. The number before 0 is
// 2^31-1.
func sequenceBefore(last, delta int32) int32 {
	if delta <= last {
		return last - delta
	}
	return int32(int64(last) - int64(delta) + (1 << 31))
}
