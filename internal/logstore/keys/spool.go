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

// Spool collects the batches and records of a segment for the segment's sidecar, in the order of
// the log. It keeps a few KiB in memory and the rest in a file, which it creates when needed and
// never syncs. The file is open only while the spool writes a page or reads all pages, because a
// broker may have thousands of spools. The owner must call Discard, even after Build.
//
// Invariant: a spool contains exactly the batches that Append accepted, from the beginning of the
// segment without a gap.
type Spool struct {
	fsys        vfs.FS
	name        string
	saltID      uint64
	base        int64
	batchesOnly bool // true if the spool contains no records; see Derivation

	context itemContext
	digest  digest
	counts  Counts
	item    []byte // reused memory
	pages   pageWriter
	created bool  // true if the file was created, or may have been created
	size    int64 // size of the file or, before the file exists, of held
	// held is the content for the file, while its size is at most heldMax. It is nil once the file
	// exists.
	held    []byte
	heldMax int
	failed  error // error after which the spool is incomplete
}

// NewSpool returns a spool for the segment with the given base offset. name is the path of the
// spool's file. salt must be the salt with which the keys are hashed.
func NewSpool(fsys vfs.FS, name string, base int64, salt Salt) *Spool {
	s := &Spool{fsys: fsys, name: name, saltID: salt.ID(), base: base, context: startOf(base),
		digest: newDigest(salt.Hasher())}
	s.pages = pageWriter{out: (*spoolFile)(s), section: spoolSection, capacity: spoolPageBytes}
	return s
}

// Hold makes the spool keep its content in memory, and create its file only when the content
// exceeds the given number of bytes. It is intended for a spool from which the sidecar is built at
// once, for example after a scan. It must be called before the first Append.
func (s *Spool) Hold(bytesMax int) { s.heldMax = bytesMax }

// Append adds a batch that was appended to the segment, with the batch's records. It ignores
// b.FirstOrdinal and b.BodyBytes, and computes both. After an error, such as ErrTooManyRecords, all
// later calls and Build fail, too.
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

// beginBatch appends a batch without its records. The caller must then call appendKeyed for each
// record.
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
		// Encode the record directly into the page, which saves a copy.
		s.pages.payload = s.appendRecord(s.pages.payload, r)
		return nil
	}
	s.item = s.appendRecord(s.item[:0], r)
	return s.write(s.item)
}

// keyedBytesMax is the largest encoded size of a record.
const keyedBytesMax = binary.MaxVarintLen64 + hashBytes

// recordSizes are the sizes of the records of one batch.
type recordSizes struct {
	bodyBytes int64
	// encodedBytes is the encoded size of the records. It precedes the records in the spool. A
	// reader of the batches can therefore skip the records.
	encodedBytes uint64
}

func (s *recordSizes) add(r *Record) {
	s.bodyBytes += int64(r.BodyBytes)
	// A uvarint takes one byte for each seven bits, but at least one byte.
	s.encodedBytes += uint64(bits.Len64(uint64(r.BodyBytes)<<sizeShift|1)+6) / 7
	if !r.NullKey {
		s.encodedBytes += hashBytes
	}
}

// appendRecord appends the encoding of a record with its hash, and updates the counts.
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

// appendBatch appends the encoding of a batch without its records, and updates the counts.
func (s *Spool) appendBatch(b Batch) error {
	if s.failed != nil {
		return s.failed
	}
	b.FirstOrdinal = s.context.ordinal
	if err := s.context.check(b); err != nil {
		return s.fail(fmt.Errorf("%w: %w", ErrMismatch, err))
	}
	s.item = s.context.appendItem(s.item[:0], b)
	s.context.advance(b)
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
	s.failed = cause
	return cause
}

// Identity returns the identity of a data file with exactly the batches of the spool.
func (s *Spool) Identity() Identity {
	return Identity{Base: s.base, LogBytes: s.context.position, Digest: s.digest.sum()}
}

// Counts returns the counts of the batches and records in the spool.
func (s *Spool) Counts() Counts { return s.counts }

// Err returns the error after which the spool is incomplete, or nil if the spool is complete.
func (s *Spool) Err() error { return s.failed }

// NextPosition returns the position of the next batch in the data file.
func (s *Spool) NextPosition() int64 { return s.context.position }

// spoolFile is a Spool as the io.Writer for its pages. It writes the pages to held or to the file.
type spoolFile Spool

func (f *spoolFile) Write(page []byte) (n int, err error) {
	if !f.created && len(f.held)+len(page) <= f.heldMax {
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
	if !f.created {
		open = f.fsys.Create // this replaces a file that an earlier process has left
	}
	f.created = true
	file, err := open(f.name)
	if err != nil {
		return 0, err
	}
	n, err = file.WriteAt(page, f.size)
	f.size += int64(n)
	return n, errors.Join(err, file.Close())
}

// each visits all batches and records. It may be called several times, but no batch may be appended
// after the first call. If record is nil, each visits only the batches.
func (s *Spool) each(read func(n int) error, batch func(Batch) error,
	record func(Batch, uint32, *KeyedRecord) error) error {
	if s.failed != nil {
		return s.failed
	}
	if err := s.pages.end(); err != nil {
		return s.fail(fmt.Errorf("write key spool: %w", err))
	}
	if s.size == 0 {
		return nil // no batch
	}
	pages := pageReader{section: spoolSection, extent: extent{bytes: s.size},
		capacity: spoolPageBytes}
	if s.created {
		file, err := s.fsys.Open(s.name)
		if err != nil {
			return fmt.Errorf("open key spool: %w", err)
		}
		defer func() { _ = file.Close() }() // the file was only read
		pages.file, pages.read = file, read
	} else {
		pages.file = bytes.NewReader(s.held) // not passed to read, because reading memory is no I/O
	}
	context := startOf(s.base)
	var r KeyedRecord // reused for all records, so the function record must not keep it
	for range s.counts.Batches {
		b, err := context.readItem(&pages)
		if err != nil {
			return err
		}
		if err := batch(b); err != nil {
			return err
		}
		context.advance(b)
		if s.batchesOnly {
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

// readKeyed decodes a record with its hash, if the record has one.
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
	var raw [hashBytes]byte // when a page ends within the hash
	if err := pages.take(raw[:]); err != nil {
		return err
	}
	r.Hash = decodeHash(raw[:])
	return nil
}

// Discard frees the memory and deletes the file. It may be called several times.
func (s *Spool) Discard() error {
	s.failed = errors.Join(s.failed, fmt.Errorf("%w: discarded", ErrMismatch))
	s.pages.payload, s.item, s.held = nil, nil, nil
	if !s.created {
		return nil
	}
	s.created, s.size = false, 0
	if err := s.fsys.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete key spool: %w", err)
	}
	return nil
}

var _ io.Writer = (*spoolFile)(nil)
