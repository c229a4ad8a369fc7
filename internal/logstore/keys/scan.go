package keys

import (
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
}

// batchBytesMaxDefault is the default of ScanOptions.BatchBytesMax.
const batchBytesMaxDefault = 128 << 20

// Scan reads a sealed segment from its beginning into a new spool: the way to a sidecar where
// nobody hashed the keys while they came. Every batch's checksum is checked; damage wraps
// record.ErrCorrupt, and then there is no sidecar to be had. BatchBytesMax must be the same in
// every scan of a log's segments, and what the cleaner holds a batch against.
func Scan(s *segment.Segment, hasher Hasher, into *Spool, opts ScanOptions) error {
	if opts.BatchBytesMax == 0 {
		opts.BatchBytesMax = batchBytesMaxDefault
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
		err := collector.batch(b, opts.BatchBytesMax)
		if errors.Is(err, compress.ErrTooLarge) {
			described.Opaque, described.Records = true, 0
			collector.Reset()
		} else if err != nil {
			return err
		}
		return into.Append(described, collector.Records)
	})
	if err != nil {
		return fmt.Errorf("scan segment %d for its keys: %w", s.Base(), err)
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
	r := KeyedRecord{Record: Record{BodyBytes: key.BodyBytes, Tombstone: key.Tombstone,
		NullKey: key.Key == nil}}
	if key.Key != nil {
		r.Hash = c.Hasher.Hash(key.Key)
	}
	c.Records = append(c.Records, r)
}

// batch takes the records of a batch, in the place of what was there. The key of a control record
// is not a user's.
func (c *Collector) batch(b record.Batch, limit int) error {
	c.Reset()
	control := b.Control()
	return b.Records(limit, func(r *record.Record) error {
		key := record.RecordKey{Key: r.Key, Tombstone: r.Tombstone(), BodyBytes: r.BodyBytes()}
		if control {
			key.Key, key.Tombstone = nil, false
		}
		c.Add(key)
		return nil
	})
}
