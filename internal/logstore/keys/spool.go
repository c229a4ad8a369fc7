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

// Spool collects the batches and records of a segment for its sidecar, in the order of the log. A
// few KiB are in memory, the rest in a file, which is created when it is needed and never synced.
// The file is open only while a page is written or all are read: a broker may have thousands of
// spools. The owner calls Discard, also after Build.
//
// Invariant: a spool has exactly the batches that Append accepted, from the beginning of the
// segment without a gap.
type Spool struct {
	fsys        vfs.FS
	name        string
	saltID      uint64
	base        int64
	batchesOnly bool // batches only: see Derivation

	context itemContext
	digest  digest
	counts  Counts
	item    []byte // reused
	pages   pageWriter
	created bool  // the file exists, or may exist
	size    int64 // of the file, or of held
	// held is the content of the file while it is at most heldMax; nil once the file exists
	held    []byte
	heldMax int
	failed  error // the error after which the spool is incomplete
}

// NewSpool returns a spool for the segment with the given base. name is the path of its file; the
// keys are hashed with the salt.
func NewSpool(fsys vfs.FS, name string, base int64, salt Salt) *Spool {
	s := &Spool{fsys: fsys, name: name, saltID: salt.ID(), base: base, context: startOf(base),
		digest: newDigest(salt.Hasher())}
	s.pages = pageWriter{out: (*spoolFile)(s), section: spoolSection, capacity: spoolPageBytes}
	return s
}

// Hold makes the spool hold up to the given number of bytes in memory before it creates its file:
// for a spool that is used at once, such as that of a scan. It is called before the first Append.
func (s *Spool) Hold(bytesMax int) { s.heldMax = bytesMax }

// Append adds a batch that was appended to the segment, with its records, and sets FirstOrdinal and
// BodyBytes. After an error, such as ErrTooManyRecords, every later call fails too, and so does
// Build.
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
		// Encode into the page, without a copy.
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
	// encodedBytes is the encoded size of the records. It precedes the records in the spool, so
	// that a reader of the batches can skip them.
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

// Identity returns the identity of the data whose batches the spool has.
func (s *Spool) Identity() Identity {
	return Identity{Base: s.base, LogBytes: s.context.position, Digest: s.digest.sum()}
}

// Counts returns the totals of the spool.
func (s *Spool) Counts() Counts { return s.counts }

// Err returns the error after which the spool is incomplete, nil if there was none.
func (s *Spool) Err() error { return s.failed }

// NextPosition returns the position in the data file of the next batch.
func (s *Spool) NextPosition() int64 { return s.context.position }

// spoolFile writes the pages of a spool to its file, which is created with the first page.
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
		open = f.fsys.Create // also replaces a file of an earlier process
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

// each visits all batches and records. It may be called repeatedly, and nothing may be appended
// afterwards. If record is nil, only batches are visited.
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
		defer func() { _ = file.Close() }() // it was only read
		pages.file, pages.read = file, read
	} else {
		pages.file = bytes.NewReader(s.held) // no I/O: not counted
	}
	context := startOf(s.base)
	var r KeyedRecord // reused: record must not keep it
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

// readKeyed decodes a record with its hash.
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
	var raw [hashBytes]byte // split by the end of a page
	if err := pages.take(raw[:]); err != nil {
		return err
	}
	r.Hash = decodeHash(raw[:])
	return nil
}

// Discard deletes the file. It may be called again.
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
