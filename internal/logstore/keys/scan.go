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

// Describe returns what a sidecar has of a batch, from its header; of a control batch also its
// marker, from its record. FirstOrdinal and BodyBytes are left to Spool.Append, Opaque to the
// caller. Position is that in the data file.
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

// markerBytesMax bounds what a control batch is decompressed to. Markers have some 20 bytes and are
// never compressed.
const markerBytesMax = 64 << 10

// markerOf reads a control record's key: i16 version, i16 type (KIP-98). What is none, or of a type
// that nobody knows, is MarkerOther.
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
	BatchBytesMax int // a batch that decompresses to more is opaque; default 128 MiB
	// told of the bytes of each batch that is read; an error ends the scan. May be nil
	Read func(int) error

	heldBytesMax int // for tests; default heldBytesMaxDefault
}

// batchBytesMaxDefault is the default of ScanOptions.BatchBytesMax.
const batchBytesMaxDefault = 128 << 20

// heldBytesMaxDefault is the largest decompressed size of a batch that a scan holds in memory.
const heldBytesMaxDefault = 4 << 20

// Scan reads a sealed segment from its beginning into a new spool: the way to a sidecar where the
// keys were not hashed when they were appended. It checks the checksum of every batch; damage wraps
// record.ErrCorrupt, and then the segment can have no sidecar. BatchBytesMax must be the same in
// every scan of a log's segments, and in the cleaner.
//
// A scan holds the stored bytes of a batch, and of its decompressed records at most 4 MiB. Larger
// batches are read in pieces (see scanLarge), opaque ones too: how much a batch decompresses to is
// the producer's choice, and a few hundred kilobytes can be gigabytes.
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

// scanLarge adds a batch to the spool that decompresses to more than heldBytesMax, without holding
// more than one of its records. It decompresses the batch three times: to find out whether it is
// opaque, for the sizes of its records, which precede them in the spool, and for their keys.
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

// Collector gathers the records of one batch, whose keys it hashes while somebody walks over them.
// Its memory is used again, unless a batch was huge.
type Collector struct {
	Hasher  Hasher
	Records []KeyedRecord
}

// collectorRecordsMax is how many records' memory is kept between batches: 4 MiB.
const collectorRecordsMax = 4 << 20 / 32

// Reset forgets the records.
func (c *Collector) Reset() {
	if cap(c.Records) > collectorRecordsMax {
		c.Records = nil
	}
	c.Records = c.Records[:0]
}

// Add takes the next record of a batch of data. The key may be overwritten afterwards.
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

// recordKey returns the key of a record. The key of a control record is not a user's, and does not
// count as one.
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
