package keys

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/bits"

	"heartwood.dev/heartwood/internal/vfs"
)

// Spool keeps what a sidecar will be made of, in the order of the log: a few KiB in memory, the
// rest in a file, which is made when it is needed and never synced. The file is open only while a
// page is written or all are read: a broker may have thousands of spools. It ends with Discard,
// also after Build.
//
// Invariant: it has exactly the batches that Append took, from the beginning of the segment without
// a gap.
type Spool struct {
	fsys   vfs.FS
	name   string
	saltID uint64
	base   int64
	bare   bool // batches only: see Derivation

	before before
	digest digest
	counts Counts
	item   []byte // reused
	pages  pageWriter
	made   bool  // there is a file, or may be
	size   int64 // of it, or of held
	// what the file would have, as long as that is no more than heldMax; nil once there is a file
	held    []byte
	heldMax int
	broken  error // a write failed: what the spool has is not what it was given
}

// NewSpool returns a spool for the segment with that base. name is where its file will be; the salt
// is the one the keys are hashed with.
func NewSpool(fsys vfs.FS, name string, base int64, salt Salt) *Spool {
	s := &Spool{fsys: fsys, name: name, saltID: salt.ID(), base: base, before: startOf(base),
		digest: newDigest(salt.Hasher())}
	s.pages = pageWriter{out: (*spoolFile)(s), section: spoolSection, capacity: spoolPageBytes}
	return s
}

// Hold has the spool keep up to so many bytes in memory before it makes a file: for one that is
// used up at once, as that of a scan is. It is called before the first Append.
func (s *Spool) Hold(most int) { s.heldMax = most }

// Append takes a batch, which has been appended to the segment, and its records. It fills in
// FirstOrdinal and BodyBytes. After a failure the spool is of no use: every later call fails too,
// and so does Build. ErrTooManyRecords is such a failure.
func (s *Spool) Append(b Batch, records []KeyedRecord) error {
	if b.Records != len(records) {
		return s.fail(fmt.Errorf("%w: %d records for a batch of %d", ErrMismatch, len(records),
			b.Records))
	}
	var sizes recordSizes
	for i := range records {
		sizes.add(&records[i].Record)
	}
	if err := s.beginBatch(b, sizes); err != nil {
		return err
	}
	for i := range records {
		if err := s.appendKeyed(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

// beginBatch appends a batch whose records, b.Records of them, follow by appendKeyed.
func (s *Spool) beginBatch(b Batch, sizes recordSizes) error {
	b.BodyBytes = sizes.bodyBytes
	if err := s.appendBatch(b); err != nil {
		return err
	}
	return s.write(binary.AppendUvarint(s.item[:0], sizes.encodedBytes))
}

// appendKeyed appends the next record of a batch.
func (s *Spool) appendKeyed(r *KeyedRecord) error {
	if len(s.pages.payload)+keyedBytesMax < s.pages.capacity {
		// straight to where it will be written from
		s.pages.payload = s.appendRecord(s.pages.payload, r)
		return nil
	}
	s.item = s.appendRecord(s.item[:0], r)
	return s.write(s.item)
}

// keyedBytesMax is the most that appendRecord makes of a record.
const keyedBytesMax = binary.MaxVarintLen64 + hashBytes

// recordSizes are the sizes of the records of one batch.
type recordSizes struct {
	bodyBytes int64
	// encodedBytes is the size of what appendRecord makes of them. It precedes the records in the
	// spool, so that a reader of the batches can skip them.
	encodedBytes uint64
}

func (s *recordSizes) add(r *Record) {
	s.bodyBytes += int64(r.BodyBytes)
	// A uvarint takes a byte for each seven bits; 0 takes one too.
	s.encodedBytes += uint64(bits.Len64(uint64(r.BodyBytes)<<sizeShift|1)+6) / 7
	if !r.NullKey {
		s.encodedBytes += hashBytes
	}
}

// appendRecord encodes and counts one record.
func (s *Spool) appendRecord(item []byte, r *KeyedRecord) []byte {
	item = appendRecord(item, r.Record)
	if r.Tombstone {
		s.counts.Tombstones++
	}
	if r.NullKey {
		s.counts.NullKeys++
		return item
	}
	return r.Hash.append(item)
}

// appendBatch encodes and counts a batch without its records.
func (s *Spool) appendBatch(b Batch) error {
	if s.broken != nil {
		return s.broken
	}
	b.FirstOrdinal = s.before.ordinal
	if err := s.before.check(b); err != nil {
		return s.fail(fmt.Errorf("%w: %w", ErrMismatch, err))
	}
	s.item = s.before.appendItem(s.item[:0], b)
	s.before.advance(b)
	s.digest.add(b)
	s.counts.Batches++
	s.counts.Records += b.Records
	s.counts.BodyBytes += b.BodyBytes
	if b.Opaque {
		s.counts.Opaque++
	}
	return s.write(s.item)
}

func (s *Spool) write(item []byte) error {
	if err := s.pages.write(item); err != nil {
		return s.fail(fmt.Errorf("write key spool: %w", err))
	}
	return nil
}

func (s *Spool) fail(cause error) error {
	s.broken = cause
	return cause
}

// Identity is that of the data whose batches the spool has.
func (s *Spool) Identity() Identity {
	return Identity{Base: s.base, LogBytes: s.before.position, Digest: s.digest.sum()}
}

// Counts tells what the spool has.
func (s *Spool) Counts() Counts { return s.counts }

// Err is why the spool is of no use; nil while it is well.
func (s *Spool) Err() error { return s.broken }

// NextPosition is where in the data file the next batch is due.
func (s *Spool) NextPosition() int64 { return s.before.position }

// spoolFile is the writing side of a spool's file, which is made with the first page.
type spoolFile Spool

func (f *spoolFile) Write(page []byte) (n int, err error) {
	if !f.made && len(f.held)+len(page) <= f.heldMax {
		f.held = append(f.held, page...)
		f.size += int64(len(page))
		return len(page), nil
	}
	if held := f.held; len(held) > 0 {
		f.held, f.heldMax, f.size = nil, 0, 0
		if _, err := f.Write(held); err != nil {
			return 0, err
		}
	}
	open := f.fsys.OpenReadWrite
	if !f.made {
		open = f.fsys.Create // also in the place of one that was left behind
	}
	f.made = true
	file, err := open(f.name)
	if err != nil {
		return 0, err
	}
	n, err = file.WriteAt(page, f.size)
	f.size += int64(n)
	return n, errors.Join(err, file.Close())
}

// each visits what the spool has, from the beginning, as often as it is asked to. Nothing may be
// appended any more. Without record only batches are visited.
func (s *Spool) each(read func(n int) error, batch func(Batch) error,
	record func(Batch, uint32, *KeyedRecord) error) error {
	if s.broken != nil {
		return s.broken
	}
	if err := s.pages.end(); err != nil {
		return s.fail(fmt.Errorf("write key spool: %w", err))
	}
	if s.size == 0 {
		return nil // no batch
	}
	pages := pageReader{section: spoolSection, place: place{bytes: s.size},
		capacity: spoolPageBytes}
	if s.made {
		file, err := s.fsys.Open(s.name)
		if err != nil {
			return fmt.Errorf("open key spool: %w", err)
		}
		defer func() { _ = file.Close() }() // it was only read
		pages.file, pages.read = file, read
	} else {
		pages.file = bytes.NewReader(s.held) // no I/O that anybody would account for
	}
	before := startOf(s.base)
	var r KeyedRecord // one for all: record must not keep it
	for range s.counts.Batches {
		b, err := before.readItem(&pages)
		if err != nil {
			return err
		}
		if err := batch(b); err != nil {
			return err
		}
		before.advance(b)
		if s.bare {
			continue
		}
		length, err := pages.uvarint(math.MaxInt64)
		if err != nil {
			return err
		}
		if record == nil {
			if err := pages.skip(length); err != nil {
				return err
			}
			continue
		}
		for i := range uint32(b.Records) {
			if err := readKeyed(&pages, &r); err != nil {
				return err
			}
			if err := record(b, b.FirstOrdinal+i, &r); err != nil {
				return err
			}
		}
	}
	return pages.atEnd()
}

// readKeyed decodes what appendRecord made.
func readKeyed(pages *pageReader, r *KeyedRecord) (err error) {
	r.Hash = Hash{}
	if r.Record, err = readRecord(pages); err != nil || r.NullKey {
		return err
	}
	if len(pages.rest) >= hashBytes {
		r.Hash = decodeHash(pages.rest)
		pages.rest = pages.rest[hashBytes:]
		return nil
	}
	var raw [hashBytes]byte // cut by the end of a page
	if err := pages.take(raw[:]); err != nil {
		return err
	}
	r.Hash = decodeHash(raw[:])
	return nil
}

// Discard removes the file. It may be called again.
func (s *Spool) Discard() error {
	s.broken = errors.Join(s.broken, fmt.Errorf("%w: discarded", ErrMismatch))
	s.pages.payload, s.item, s.held = nil, nil, nil
	if !s.made {
		return nil
	}
	s.made, s.size = false, 0
	if err := s.fsys.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove key spool: %w", err)
	}
	return nil
}

var _ io.Writer = (*spoolFile)(nil)
