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

// Describe returns a sidecar's description of a batch from its header, and for a control batch the
// marker from its record. position is the position of the batch in the data file. Spool.Append sets
// FirstOrdinal and BodyBytes; the caller sets Opaque.
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

// markerBytesMax bounds the decompressed size of a control batch. Markers have some 20 bytes and
// are not compressed.
const markerBytesMax = 64 << 10

// markerOf reads the key of a control record: i16 version, i16 type (KIP-98). Any other record, and
// an unknown type, is MarkerOther.
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

// ScanOptions bound a scan.
type ScanOptions struct {
	BatchBytesMax int // a batch that decompresses to more bytes is opaque; default 128 MiB
	// Read is called with the bytes of each batch; an error ends the scan. May be nil.
	Read func(int) error

	heldBytesMax int // for tests; default heldBytesMaxDefault
}

// batchBytesMaxDefault is the default of ScanOptions.BatchBytesMax.
const batchBytesMaxDefault = 128 << 20

// heldBytesMaxDefault is the largest decompressed size of a batch that a scan holds in memory.
const heldBytesMaxDefault = 4 << 20

// Scan reads a whole sealed segment into a new spool, for a segment whose keys were not hashed when
// they were appended. It checks the checksum of every batch. The error wraps record.ErrCorrupt for
// a damaged batch; the segment can have no sidecar then. BatchBytesMax must be the same in every
// scan of a log's segments, and in the cleaner.
//
// A scan holds the stored bytes of a batch, and at most 4 MiB of its decompressed records. Larger
// batches, opaque ones too, are read in pieces (scanLarge): the producer chooses how much a batch
// decompresses to, and a few hundred kilobytes can become gigabytes.
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

// scanLarge adds a batch that decompresses to more than heldBytesMax to the spool, and holds one of
// its records at a time. It decompresses the batch three times: to detect whether it is opaque, for
// the sizes of its records, which precede them in the spool, and for their keys.
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

// spoolLarge adds a batch to the spool, record by record.
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

// Collector hashes and collects the records of one batch. Its memory is reused, unless a batch was
// very large.
type Collector struct {
	Hasher  Hasher
	Records []KeyedRecord
}

// collectorRecordsMax is the number of records whose memory is reused: 4 MiB.
const collectorRecordsMax = 4 << 20 / 32

// Reset removes the records.
func (c *Collector) Reset() {
	if cap(c.Records) > collectorRecordsMax {
		c.Records = nil
	}
	c.Records = c.Records[:0]
}

// Add adds the next record of a data batch. The key may be overwritten afterwards.
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

// recordKey returns the key of a record. The key of a control record is not a user's, so recordKey
// returns a null key.
func recordKey(r *record.Record, control bool) record.RecordKey {
	key := record.RecordKey{Key: r.Key, Tombstone: r.Tombstone(), BodyBytes: r.BodyBytes()}
	if control {
		key.Key, key.Tombstone = nil, false
	}
	return key
}

// batch replaces the records by those of a batch.
func (c *Collector) batch(b record.Batch, limit int) error {
	c.Reset()
	control := b.Control()
	return b.Records(limit, func(r *record.Record) error {
		c.Add(recordKey(r, control))
		return nil
	})
}
