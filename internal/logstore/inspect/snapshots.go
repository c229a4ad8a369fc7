package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// The layout of a producer snapshot (docs/internals/format/store.md). This package does not use the
// decoder of package producer, because verify would then not detect the mistakes of that decoder.
const (
	snapshotExtension   = ".snapshot"
	snapshotVersion     = 1
	snapshotHeaderBytes = 10
	snapshotEntryBytes  = 46
	// snapshotTrailer follows the entries in Heartwood's snapshots. An offset and the older batches
	// follow the trailer. Kafka's snapshots have no trailer.
	snapshotTrailer    = "as of"
	snapshotOlderBytes = 32
	snapshotOlderMax   = 4 // maximum number of a producer's older batches
)

var errSnapshot = errors.New("invalid producer snapshot")

// snapshotFile is a producer snapshot that has not been compared with the batches yet.
type snapshotFile struct {
	path   string
	offset int64
}

// snapshotLine is an entry of a producer snapshot.
type snapshotLine struct {
	File             string `json:"file"`
	ProducerID       int64  `json:"producerId"`
	ProducerEpoch    int16  `json:"producerEpoch"`
	LastSequence     int32  `json:"lastSequence"` // -1 if the epoch has no batch
	LastOffset       int64  `json:"lastOffset"`
	OffsetDelta      int32  `json:"offsetDelta"`
	Timestamp        int64  `json:"timestamp"` // ms
	CoordinatorEpoch int32  `json:"coordinatorEpoch"`
	TxnFirstOffset   int64  `json:"txnFirstOffset"` // -1 if no transaction is open
	// Older contains the producer's batches before the last one, oldest first. Kafka's snapshots do
	// not contain them.
	Older []olderBatch `json:"older,omitempty"`
}

// olderBatch is one of a producer's batches before the last one. A broker uses these batches to
// detect duplicates.
type olderBatch struct {
	LastSequence int32 `json:"lastSequence"`
	LastOffset   int64 `json:"lastOffset"`
	OffsetDelta  int32 `json:"offsetDelta"`
	Timestamp    int64 `json:"timestamp"` // ms
}

func (l snapshotLine) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "producer id=%d epoch=%d sequence=%d offset=%d delta=%d time=%s "+
		"coordinator=%d transaction=%d", l.ProducerID, l.ProducerEpoch, l.LastSequence,
		l.LastOffset, l.OffsetDelta, timeText(l.Timestamp), l.CoordinatorEpoch, l.TxnFirstOffset)
	for _, b := range l.Older {
		fmt.Fprintf(&text, " older=%d@%d", b.LastSequence, b.LastOffset)
	}
	return text.String()
}

// parseSnapshot decodes the entries of a snapshot. It fails with errSnapshot if the content is
// malformed.
func parseSnapshot(path string, content []byte) ([]snapshotLine, error) {
	lines, _, err := parseSnapshotAsOf(path, content)
	return lines, err
}

// parseSnapshotAsOf is like parseSnapshot, but also returns the offset in the snapshot's trailer,
// or noOffset if the snapshot has no trailer.
func parseSnapshotAsOf(path string, content []byte) (lines []snapshotLine, asOf int64, err error) {
	be := binary.BigEndian
	if len(content) < snapshotHeaderBytes {
		return nil, 0, fmt.Errorf("%w: %d bytes", errSnapshot, len(content))
	}
	if version := be.Uint16(content); version != snapshotVersion {
		return nil, 0, fmt.Errorf("%w: version %d", errSnapshot, version)
	}
	if sum := crc32.Checksum(content[6:],
		crc32.MakeTable(crc32.Castagnoli)); sum != be.Uint32(content[2:]) {
		return nil, 0, fmt.Errorf("%w: checksum %#08x, but the bytes have %#08x", errSnapshot,
			be.Uint32(content[2:]), sum)
	}
	entries := content[snapshotHeaderBytes:]
	size := int64(be.Uint32(content[6:])) * snapshotEntryBytes
	trailer := entries[min(size, int64(len(entries))):]
	asOf = noOffset
	var older []byte
	switch ours := len(trailer) >= len(snapshotTrailer)+8 &&
		string(trailer[:len(snapshotTrailer)]) == snapshotTrailer; {
	case ours:
		asOf = int64(be.Uint64(trailer[len(snapshotTrailer):]))
		if older = trailer[len(snapshotTrailer)+8:]; len(older)%snapshotOlderBytes != 0 {
			return nil, 0, fmt.Errorf("%w: %d bytes of older batches", errSnapshot, len(older))
		}
	case len(trailer) > 0 || size != int64(len(entries)):
		return nil, 0, fmt.Errorf("%w: %d entries in %d bytes", errSnapshot,
			size/snapshotEntryBytes, len(entries))
	}
	entries = entries[:size]
	lines = make([]snapshotLine, 0, len(entries)/snapshotEntryBytes)
	for ; len(entries) > 0; entries = entries[snapshotEntryBytes:] {
		lines = append(lines, snapshotLine{
			File: path, ProducerID: int64(be.Uint64(entries)),
			ProducerEpoch:    int16(be.Uint16(entries[8:])),
			LastSequence:     int32(be.Uint32(entries[10:])),
			LastOffset:       int64(be.Uint64(entries[14:])),
			OffsetDelta:      int32(be.Uint32(entries[22:])),
			Timestamp:        int64(be.Uint64(entries[26:])),
			CoordinatorEpoch: int32(be.Uint32(entries[34:])),
			TxnFirstOffset:   int64(be.Uint64(entries[38:])),
		})
	}
	return lines, asOf, addOlder(lines, older)
}

// addOlder adds each older batch to the line of its producer.
func addOlder(lines []snapshotLine, older []byte) error {
	be := binary.BigEndian
	byID := make(map[int64]*snapshotLine, len(lines))
	for i := range lines {
		byID[lines[i].ProducerID] = &lines[i]
	}
	for ; len(older) > 0; older = older[snapshotOlderBytes:] {
		line := byID[int64(be.Uint64(older))]
		if line == nil {
			return fmt.Errorf("%w: an older batch of producer %d, which has no entry", errSnapshot,
				int64(be.Uint64(older)))
		}
		line.Older = append(line.Older, olderBatch{
			LastSequence: int32(be.Uint32(older[8:])), LastOffset: int64(be.Uint64(older[12:])),
			OffsetDelta: int32(be.Uint32(older[20:])),
			Timestamp:   int64(be.Uint64(older[24:])),
		})
	}
	return nil
}

// compareSnapshots compares the snapshots at or below offset with the batches read so far. These
// batches must be all batches below offset.
func (d *directory) compareSnapshots(offset int64) error {
	for len(d.snapshots) > 0 && d.snapshots[0].offset <= offset {
		s := d.snapshots[0]
		d.snapshots = d.snapshots[1:]
		content, ok, err := d.v.readSmall(s.path)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		lines, asOf, err := parseSnapshotAsOf(s.path, content)
		switch {
		case err != nil:
			d.v.find(s.path, 0, "%v", err)
		case asOf != noOffset && asOf != s.offset:
			d.v.find(s.path, 0, "producer state as of offset %d, but the file name has %d", asOf,
				s.offset)
		case s.offset > d.first && s.offset < d.next:
			d.v.find(s.path, 0, "producer state as of offset %d, which is within a batch", s.offset)
		default:
			d.compareSnapshot(s, lines)
		}
	}
	return nil
}

// compareSnapshot compares one snapshot with the batches. If the snapshot is below the first
// segment, it only checks whether each entry is valid.
func (d *directory) compareSnapshot(s snapshotFile, lines []snapshotLine) {
	listed := make(map[int64]bool, len(lines))
	for i, l := range lines {
		position := int64(snapshotHeaderBytes + i*snapshotEntryBytes)
		if listed[l.ProducerID] {
			d.v.find(s.path, position, "producer %d has two entries", l.ProducerID)
		}
		listed[l.ProducerID] = true
		if problem := l.invalid(s.offset); problem != "" {
			d.v.find(s.path, position, "producer %d: %s", l.ProducerID, problem)
			continue
		}
		if s.offset < d.first {
			continue
		}
		if problem := d.contradiction(l); problem != "" {
			d.v.find(s.path, position, "producer %d: %s", l.ProducerID, problem)
		}
	}
	for id, known := range d.producers {
		// An idle producer expires after a day, unless it has an open transaction.
		if known.open != noOffset && !listed[id] && d.exact() && s.offset >= d.first {
			d.v.find(s.path, 0,
				"producer %d, whose transaction is open since offset %d, is missing",
				id, known.open)
		}
	}
}

// invalid returns the reason why a snapshot entry as of the offset asOf is invalid, whatever the
// log contains, or "" if the entry is valid.
func (l snapshotLine) invalid(asOf int64) string {
	switch {
	case l.ProducerID < 0 || l.ProducerEpoch < 0:
		return fmt.Sprintf("epoch %d", l.ProducerEpoch)
	case l.LastOffset >= asOf || l.TxnFirstOffset >= asOf:
		return fmt.Sprintf("last offset %d and transaction at %d, but the log ended at %d",
			l.LastOffset, l.TxnFirstOffset, asOf)
	case l.OffsetDelta < 0 || l.LastOffset >= 0 && int64(l.OffsetDelta) > l.LastOffset:
		return fmt.Sprintf("offset delta %d at offset %d", l.OffsetDelta, l.LastOffset)
	case len(l.Older) > snapshotOlderMax:
		return fmt.Sprintf("%d older batches", len(l.Older))
	}
	for i, b := range l.Older {
		next := l.LastOffset
		if i+1 < len(l.Older) {
			next = l.Older[i+1].LastOffset
		}
		if b.LastSequence < 0 || b.OffsetDelta < 0 || int64(b.OffsetDelta) > b.LastOffset ||
			b.LastOffset >= next {
			return fmt.Sprintf("older batch with sequence %d and offset delta %d at offset %d, "+
				"before one at %d", b.LastSequence, b.OffsetDelta, b.LastOffset, next)
		}
	}
	return ""
}

// contradiction describes how an entry contradicts the batches, or returns "" if it does not.
// Cleaning may have removed batches that the entry describes, so the entry must match exactly only
// if no batch is missing.
func (d *directory) contradiction(l snapshotLine) string {
	known, exact := d.producers[l.ProducerID], d.exact()
	switch {
	case known == nil && exact:
		return "the log contains no batch of this producer"
	case known == nil:
		return ""
	case l.ProducerEpoch < known.epoch || exact && l.ProducerEpoch != known.epoch:
		return fmt.Sprintf("epoch %d, but the log has %d", l.ProducerEpoch, known.epoch)
	case l.CoordinatorEpoch < known.coordinator || exact && l.CoordinatorEpoch != known.coordinator:
		return fmt.Sprintf("coordinator epoch %d, but the log has %d", l.CoordinatorEpoch,
			known.coordinator)
	case known.open != noOffset && (l.TxnFirstOffset < 0 || l.TxnFirstOffset > known.open),
		exact && l.TxnFirstOffset != known.open:
		return fmt.Sprintf("transaction open since offset %d, but in the log since %d (-1: none)",
			l.TxnFirstOffset, known.open)
	case l.ProducerEpoch > known.epoch:
		return "" // cleaning has removed the producer's batches in that epoch
	case l.LastOffset < known.lastOffset || exact && l.LastOffset != known.lastOffset:
		return fmt.Sprintf("last offset %d, but in the log %d", l.LastOffset, known.lastOffset)
	case known.lastOffset != noOffset && l.LastOffset == known.lastOffset &&
		(l.LastSequence != known.sequence || l.OffsetDelta != known.delta):
		return fmt.Sprintf("sequence %d and offset delta %d at offset %d, but in the log %d and %d",
			l.LastSequence, l.OffsetDelta, l.LastOffset,
			known.sequence, known.delta)
	}
	return ""
}
