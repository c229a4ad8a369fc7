package logstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// The file <offset>.snapshot: producer state as of that offset, in Kafka's format
// (docs/format/store.md).
const (
	snapshotSuffix      = ".snapshot"
	snapshotVersion     = 1
	snapshotHeaderBytes = 2 + 4 + 4 // version; CRC-32C of all behind it; number of entries
	snapshotEntryBytes  = 46
	// snapshotTrailer stands behind the entries of those that we write, behind it the offset, and
	// behind that the older batches. Kafka reads the entries only.
	snapshotTrailer      = "as of"
	snapshotTrailerBytes = len(snapshotTrailer) + 8
	snapshotOlderBytes   = 32 // one older batch
)

var (
	errSnapshot = errors.New("malformed producer snapshot")
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
)

// encode writes the snapshot file of an offset, which it is bound to: the content of one must not
// pass for that of another. Kafka keeps the last batch of each producer only, and refuses the
// repeat of an older one after a restart as out of order; a client that has five in flight repeats
// all of them. So ours has the older ones, too, where Kafka does not look.
func (ps *producers) encode(offset int64) []byte {
	ids := make([]int64, 0, ps.count())
	for id := range ps.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	out := make([]byte, 0, snapshotHeaderBytes+len(ids)*snapshotEntryBytes+snapshotTrailerBytes)
	out = binary.BigEndian.AppendUint16(out, snapshotVersion)
	out = binary.BigEndian.AppendUint32(out, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(len(ids)))
	for _, id := range ids {
		out = ps.get(id).appendEntry(out, id)
	}
	out = binary.BigEndian.AppendUint64(append(out, snapshotTrailer...), uint64(offset))
	for _, id := range ids {
		out = ps.get(id).appendOlder(out, id)
	}
	binary.BigEndian.PutUint32(out[2:], crc32.Checksum(out[6:], castagnoli))
	return out
}

// appendEntry writes one entry of the table in docs/format/store.md.
func (p *producer) appendEntry(out []byte, id int64) []byte {
	last := producerBatch{lastSequence: noSequence, lastOffset: -1, timestamp: p.lastSeen}
	if len(p.batches) > 0 {
		last = p.batches[len(p.batches)-1]
	}
	out = binary.BigEndian.AppendUint64(out, uint64(id))
	out = binary.BigEndian.AppendUint16(out, uint16(p.epoch))
	out = binary.BigEndian.AppendUint32(out, uint32(last.lastSequence))
	out = binary.BigEndian.AppendUint64(out, uint64(last.lastOffset))
	out = binary.BigEndian.AppendUint32(out, uint32(last.offsetDelta))
	// Kafka expires a producer by this field; so it holds when we saw it, not the batch's own
	// timestamp, which is the client's.
	out = binary.BigEndian.AppendUint64(out, uint64(p.lastSeen))
	out = binary.BigEndian.AppendUint32(out, uint32(p.coordinatorEpoch))
	return binary.BigEndian.AppendUint64(out, uint64(p.txnFirst))
}

// appendOlder writes what is remembered besides the last batch, oldest first.
func (p *producer) appendOlder(out []byte, id int64) []byte {
	for _, b := range p.batches[:max(0, len(p.batches)-1)] {
		out = binary.BigEndian.AppendUint64(out, uint64(id))
		out = binary.BigEndian.AppendUint32(out, uint32(b.lastSequence))
		out = binary.BigEndian.AppendUint64(out, uint64(b.lastOffset))
		out = binary.BigEndian.AppendUint32(out, uint32(b.offsetDelta))
		out = binary.BigEndian.AppendUint64(out, uint64(b.timestamp))
	}
	return out
}

// decodeProducers reads the snapshot file of an offset. Its size was checked against count before
// anything was made: a count alone could ask for any amount of memory.
func decodeProducers(content []byte, offset int64) (*producers, error) {
	if len(content) < snapshotHeaderBytes {
		return nil, fmt.Errorf("%w: %d bytes", errSnapshot, len(content))
	}
	if version := binary.BigEndian.Uint16(content); version != snapshotVersion {
		return nil, fmt.Errorf("%w: version %d", errSnapshot, version)
	}
	if binary.BigEndian.Uint32(content[2:]) != crc32.Checksum(content[6:], castagnoli) {
		return nil, fmt.Errorf("%w: checksum does not match", errSnapshot)
	}
	count := int64(binary.BigEndian.Uint32(content[6:]))
	entries := content[snapshotHeaderBytes:]
	if int64(len(entries)) < count*snapshotEntryBytes {
		return nil, fmt.Errorf("%w: %d entries in %d bytes", errSnapshot, count, len(entries))
	}
	entries, trailer := entries[:count*snapshotEntryBytes], entries[count*snapshotEntryBytes:]
	older, err := checkTrailer(trailer, offset)
	if err != nil {
		return nil, err
	}
	ps := &producers{byID: make(map[int64]*producer, count)}
	for ; len(entries) > 0; entries = entries[snapshotEntryBytes:] {
		id, p := decodeProducer(entries)
		if id < 0 || p.txnFirst >= offset || len(p.batches) > 0 &&
			p.batches[0].lastOffset >= offset {
			return nil, fmt.Errorf("%w: producer id %d, as of offset %d", errSnapshot, id, offset)
		}
		if ps.byID[id] = p; p.txnFirst != noTxn {
			ps.open = append(ps.open, openTxn{id, p.txnFirst})
		}
	}
	if len(ps.byID) != int(count) {
		return nil, fmt.Errorf("%w: a producer stands twice", errSnapshot)
	}
	if err := ps.remember(older); err != nil {
		return nil, err
	}
	slices.SortFunc(ps.open, func(a, b openTxn) int { return cmp.Compare(a.first, b.first) })
	return ps, nil
}

// checkTrailer holds what stands behind the entries against the offset in the file's name, and
// returns the older batches. Behind Kafka's stands nothing.
func checkTrailer(trailer []byte, offset int64) (older []byte, err error) {
	if len(trailer) == 0 {
		return nil, nil
	}
	if len(trailer) < snapshotTrailerBytes ||
		string(trailer[:len(snapshotTrailer)]) != snapshotTrailer ||
		(len(trailer)-snapshotTrailerBytes)%snapshotOlderBytes != 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the entries", errSnapshot, len(trailer))
	}
	if of := int64(binary.BigEndian.Uint64(trailer[len(snapshotTrailer):])); of != offset {
		return nil, fmt.Errorf("%w: it is as of offset %d, not %d", errSnapshot, of, offset)
	}
	return trailer[snapshotTrailerBytes:], nil
}

// remember puts older batches before the last one of their producers. They come producer by
// producer, oldest first.
func (ps *producers) remember(older []byte) error {
	be := binary.BigEndian
	for ; len(older) > 0; older = older[snapshotOlderBytes:] {
		id := int64(be.Uint64(older))
		b := producerBatch{
			lastSequence: int32(be.Uint32(older[8:])),
			lastOffset:   int64(be.Uint64(older[12:])),
			offsetDelta:  int32(be.Uint32(older[20:])),
			timestamp:    int64(be.Uint64(older[24:])),
		}
		p := ps.byID[id]
		if p == nil || len(p.batches) == 0 || len(p.batches) == producerBatchesMax ||
			b.lastSequence < 0 || b.offsetDelta < 0 ||
			b.lastOffset < int64(b.offsetDelta) {
			return fmt.Errorf("%w: an older batch of producer %d at %d", errSnapshot, id,
				b.lastOffset)
		}
		b.firstSequence = sequenceBefore(b.lastSequence, b.offsetDelta)
		last := len(p.batches) - 1
		p.batches = slices.Insert(p.batches, last, b)
		if b.lastOffset >= p.batches[last+1].lastOffset || last > 0 &&
			b.lastOffset <= p.batches[last-1].lastOffset {
			return fmt.Errorf("%w: older batches of producer %d are not in order", errSnapshot, id)
		}
	}
	return nil
}

// decodeProducer reads one entry. A producer without a last batch has written only a marker in its
// epoch.
func decodeProducer(entry []byte) (id int64, p *producer) {
	be := binary.BigEndian
	p = &producer{
		epoch:            int16(be.Uint16(entry[8:])),
		lastSeen:         int64(be.Uint64(entry[26:])),
		coordinatorEpoch: int32(be.Uint32(entry[34:])),
		txnFirst:         max(int64(be.Uint64(entry[38:])), noTxn),
	}
	last := producerBatch{
		lastSequence: int32(be.Uint32(entry[10:])),
		lastOffset:   int64(be.Uint64(entry[14:])),
		offsetDelta:  int32(be.Uint32(entry[22:])),
		timestamp:    p.lastSeen,
	}
	if last.lastSequence >= 0 && last.lastOffset >= 0 && last.offsetDelta >= 0 {
		last.firstSequence = sequenceBefore(last.lastSequence, last.offsetDelta)
		p.batches = []producerBatch{last}
	}
	return int64(be.Uint64(entry)), p
}

// sequenceBefore returns the sequence delta before last, wrapping below 0 to 2^31-1.
func sequenceBefore(last, delta int32) int32 {
	if delta <= last {
		return last - delta
	}
	return int32(int64(last) - int64(delta) + (1 << 31))
}
