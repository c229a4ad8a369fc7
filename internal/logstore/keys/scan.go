package keys

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// Describe returns the sidecar's description of a batch, computed from the batch's header and, for
// a control batch, from its record. position is the position of the batch in the data file.
// Spool.Append sets FirstOrdinal and BodyBytes; the caller sets Opaque.
func Describe(b record.Batch, position int64) Batch {
	horizon, _ := b.DeleteHorizon()
	described := Batch{
		Position: position, SizeBytes: len(b), BaseOffset: b.BaseOffset(),
		LastOffset: b.LastOffset(), Records: int(b.Count()), CRC: b.CRC(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(),
		Transactional: b.Transactional(),
		TimestampType: b.TimestampType(), Codec: b.Codec(), HorizonMs: horizon,
		MaxTimestamp: b.MaxTimestamp(), LeaderEpoch: b.LeaderEpoch(),
	}
	if b.Control() {
		described.Marker = markerOf(b)
	}
	return described
}

// markerBytesMax is the largest decompressed size of a control batch that markerOf reads. Markers
// take about 20 bytes and are not compressed.
const markerBytesMax = 64 << 10

// markerOf returns the kind of a control batch. It reads the control record's key: i16 version, i16
// type (KIP-98). If the type is unknown or the key is not valid, it returns MarkerOther.
func markerOf(b record.Batch) Marker {
	marker := MarkerOther
	err := b.Records(markerBytesMax, func(r *record.Record) error {
		if len(r.Key) < 4 {
			return nil
		}
		switch binary.BigEndian.Uint16(r.Key[2:]) {
		case 0:
			marker = MarkerAbort
		case 1:
			marker = MarkerCommit
		}
		return nil
	})
	if err != nil {
		return MarkerOther
	}
	return marker
}

// ScanOptions are the limits of a scan.
type ScanOptions struct {
	BatchBytesMax int // size above which a decompressed batch is opaque; default 128 MiB
	// Read is called with the size of each batch. It may block; an error ends the scan. It may be
	// nil.
	Read func(int) error

	heldBytesMax int // for tests; default heldBytesMaxDefault
}

// batchBytesMaxDefault is the default of ScanOptions.BatchBytesMax.
const batchBytesMaxDefault = 128 << 20

// heldBytesMaxDefault is the default of ScanOptions.heldBytesMax: the largest decompressed size of
// a batch whose records a scan keeps in memory together.
const heldBytesMaxDefault = 4 << 20

// Scan adds all batches and records of a sealed segment to a new spool. It is used if the keys were
// not hashed when the records were appended. It verifies the checksum of every batch. If a batch is
// damaged, the error wraps record.ErrCorrupt, and no sidecar can be built. BatchBytesMax must be
// the same in the cleaner and in all scans of a log's segments.
//
// A scan keeps one stored batch in memory, and at most 4 MiB of the batch's decompressed records. A
// batch that decompresses to more is read in pieces (scanLarge), because the producer determines
// the decompressed size: a few hundred kilobytes can decompress to gigabytes.
func Scan(s *segment.Segment, hasher Hasher, into *Spool, opts ScanOptions) error {
	if opts.BatchBytesMax == 0 {
		opts.BatchBytesMax = batchBytesMaxDefault
	}
	if opts.heldBytesMax == 0 {
		opts.heldBytesMax = heldBytesMaxDefault
	}
	collector := Collector{Hasher: hasher}
	err := s.Scan(0, func(position int64, b record.Batch) error {
		if opts.Read != nil {
			if err := opts.Read(len(b)); err != nil {
				return err
			}
		}
		if err := b.CheckCRC(); err != nil {
			return err
		}
		described := Describe(b, position)
		err := collector.batch(b, min(opts.BatchBytesMax, opts.heldBytesMax))
		switch {
		case err == nil:
			return into.Append(described, collector.Records)
		case !errors.Is(err, compress.ErrTooLarge):
			return err
		}
		collector.Reset()
		return scanLarge(b, described, hasher, into, opts)
	})
	if err != nil {
		return fmt.Errorf("scan segment %d for its keys: %w", s.Base(), err)
	}
	return nil
}

// scanLarge adds a batch that decompresses to more than heldBytesMax to the spool, and keeps one of
// its records in memory at a time. It decompresses the batch three times: to determine whether the
// batch is opaque; to compute the sizes of its records, which precede the records in the spool; and
// to hash the records' keys.
func scanLarge(b record.Batch, described Batch, hasher Hasher, into *Spool,
	opts ScanOptions) error {
	if opts.BatchBytesMax > opts.heldBytesMax {
		_, err := b.PayloadSize(opts.BatchBytesMax)
		if err == nil {
			return spoolLarge(b, described, hasher, into, opts.BatchBytesMax)
		}
		if !errors.Is(err, compress.ErrTooLarge) {
			return err
		}
	}
	described.Opaque, described.Records = true, 0
	return into.Append(described, nil)
}

// spoolLarge adds a batch that is not opaque to the spool, record by record.
func spoolLarge(b record.Batch, described Batch, hasher Hasher, into *Spool, limit int) error {
	var sizes recordSizes
	control := b.Control()
	for r, err := range b.Stream(bytes.NewReader(b[record.HeaderBytes:]), limit) {
		if err != nil {
			return err
		}
		sizes.add(&Record{BodyBytes: r.BodyBytes(), NullKey: r.Key == nil || control})
	}
	if err := into.beginBatch(described, sizes); err != nil {
		return err
	}
	for r, err := range b.Stream(bytes.NewReader(b[record.HeaderBytes:]), limit) {
		if err != nil {
			return into.fail(err)
		}
		keyed := keyedRecord(hasher, recordKey(r, control))
		if err := into.appendKeyed(&keyed); err != nil {
			return err
		}
	}
	return nil
}

// Collector hashes and collects the records of one batch. Its memory is reused for the next batch,
// unless a batch was very large.
type Collector struct {
	Hasher  Hasher
	Records []KeyedRecord
}

// collectorRecordsMax is the largest number of records whose memory is reused: 4 MiB, at 32 bytes
// per record.
const collectorRecordsMax = 4 << 20 / 32

// Reset removes the records.
func (c *Collector) Reset() {
	if cap(c.Records) > collectorRecordsMax {
		c.Records = nil
	}
	c.Records = c.Records[:0]
}

// Add adds the next record of a data batch. It does not keep the key's bytes.
func (c *Collector) Add(key record.RecordKey) {
	c.Records = append(c.Records, keyedRecord(c.Hasher, key))
}

// keyedRecord hashes the key of a record.
func keyedRecord(hasher Hasher, key record.RecordKey) KeyedRecord {
	r := KeyedRecord{Record: Record{BodyBytes: key.BodyBytes, Tombstone: key.Tombstone,
		NullKey: key.Key == nil}}
	if key.Key != nil {
		r.Hash = hasher.Hash(key.Key)
	}
	return r
}

// recordKey returns the key of a record. For a control record it returns a null key, because a
// control record's key is not a user's key.
func recordKey(r *record.Record, control bool) record.RecordKey {
	key := record.RecordKey{Key: r.Key, Tombstone: r.Tombstone(), BodyBytes: r.BodyBytes()}
	if control {
		key.Key, key.Tombstone = nil, false
	}
	return key
}

// batch replaces the collected records by the records of a batch.
func (c *Collector) batch(b record.Batch, limit int) error {
	c.Reset()
	control := b.Control()
	return b.Records(limit, func(r *record.Record) error {
		c.Add(recordKey(r, control))
		return nil
	})
}
