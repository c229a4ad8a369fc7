package keys

import (
	"errors"
	"fmt"
	"io"

	"heartwood.dev/heartwood/internal/vfs"
)

// Expect identifies the data file and the salt to which a sidecar must belong.
type Expect struct {
	// Identity identifies the data file. If its Digest is 0, the digest is not compared, and the
	// caller must call Verify.
	Identity
	SaltID uint64 // id of the partition's salt
}

// Reader reads a sidecar. Open verifies the header; iterators verify each page when they read it. A
// Reader may be used concurrently, but each iterator only by one goroutine.
type Reader struct {
	file   vfs.File
	header header
	size   int64
	read   func(n int) error
}

// Open opens a sidecar and reads its header. The error wraps fs.ErrNotExist if the file does not
// exist, ErrStale if the sidecar belongs to other data, and ErrCorrupt if the sidecar is damaged;
// see Unusable.
func Open(fsys vfs.FS, name string, want Expect) (*Reader, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open key sidecar: %w", err)
	}
	r := &Reader{file: file}
	if err := r.open(want); err != nil {
		return nil, fmt.Errorf("open key sidecar %s: %w", name, errors.Join(err, file.Close()))
	}
	return r, nil
}

// Unusable reports whether an error means that the sidecar must be rebuilt. All other errors are
// disk failures.
func Unusable(err error) bool { return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrStale) }

func (r *Reader) open(want Expect) (err error) {
	if r.size, err = r.file.Size(); err != nil {
		return err
	}
	content := make([]byte, headerBytes)
	if err := readFull(r.file, content, 0, nil); err != nil {
		return err
	}
	if r.header, err = decodeHeader(content, r.size); err != nil {
		return err
	}
	got := r.header.identity
	if want.Digest == 0 {
		want.Digest = got.Digest
	}
	if got != want.Identity || r.header.saltID != want.SaltID {
		return fmt.Errorf(
			"%w: %d bytes from offset %d, digest %x, salt %x; want %d bytes from %d, digest %x, salt %x",
			ErrStale,
			got.LogBytes,
			got.Base,
			got.Digest,
			r.header.saltID,
			want.LogBytes,
			want.Base,
			want.Digest,
			want.SaltID,
		)
	}
	return nil
}

// OnRead sets a function that iterators call before they read n bytes of the file. It applies to
// iterators that are created afterwards. The function can count bytes, block to limit the rate, or
// return an error, which ends the iteration.
func (r *Reader) OnRead(read func(n int) error) { r.read = read }

// Identity returns the data file's identity from the header, including the digest.
func (r *Reader) Identity() Identity { return r.header.identity }

// Counts returns the totals of the segment.
func (r *Reader) Counts() Counts { return r.header.counts }

// SizeBytes returns the size of the sidecar.
func (r *Reader) SizeBytes() int64 { return r.size }

// Verify compares the checksums of eight batches, spread over the data file, with the sidecar. It
// fails with ErrStale if a checksum differs. A caller that opened the sidecar without knowing the
// digest must call Verify. Verify does not detect every change, so a caller that reads a batch must
// also compare the batch's checksum with Batch.CRC.
func (r *Reader) Verify(data io.ReaderAt) error { return r.header.verify(data) }

// VerifyIndexes verifies the checksum of each page of the batch index and of the buckets. Iterators
// verify only the pages that they need.
func (r *Reader) VerifyIndexes() error {
	for name, capacity := range map[section]int{indexSection: indexPageBytes,
		bucketsSection: bucketPageBytes} {
		pages := r.stream(name)
		pages.capacity = capacity
		for {
			if err := pages.fill(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// Close closes the file. Iterators must not be used afterwards.
func (r *Reader) Close() error { return r.file.Close() }

// stream returns a reader for the section of batches or of records.
func (r *Reader) stream(part section) pageReader {
	return pageReader{
		file: r.file, read: r.read, digest: r.header.identity.Digest, section: part,
		extent: r.header.extent(part), capacity: streamPageBytes,
	}
}

// Batches iterates over a segment's batches, in the order of the log, with a buffer of 64 KiB.
type Batches struct {
	pages   pageReader
	left    int
	counts  Counts // counts in the header minus what was read
	size    int64  // size of the data file
	context itemContext
	batch   Batch
	err     error
}

// Batches returns an iterator over the batches. The first call of Next moves it to the first batch.
func (r *Reader) Batches() *Batches {
	return &Batches{
		pages: r.stream(batchesSection), left: r.header.counts.Batches, counts: r.header.counts,
		size: r.header.identity.LogBytes, context: startOf(r.header.identity.Base),
	}
}

// Next moves to the next batch. It returns false after the last batch or after an error; see Err.
func (i *Batches) Next() bool {
	if i.err != nil {
		return false
	}
	if i.left == 0 {
		i.err = i.atEnd()
		return false
	}
	if i.batch, i.err = i.context.readItem(&i.pages); i.err != nil {
		return false
	}
	i.left--
	i.context.advance(i.batch)
	i.counts.Records -= i.batch.Records
	i.counts.BodyBytes -= i.batch.BodyBytes
	if i.batch.Opaque {
		i.counts.Opaque--
	}
	return true
}

// atEnd compares the sums over all batches with the header.
func (i *Batches) atEnd() error {
	if err := i.pages.atEnd(); err != nil {
		return err
	}
	if c := i.counts; i.context.position != i.size || c.Records != 0 || c.BodyBytes != 0 ||
		c.Opaque != 0 {
		return fmt.Errorf("%w: batches of %d bytes, want %d; %d records are missing", ErrCorrupt,
			i.context.position, i.size, c.Records)
	}
	return nil
}

// Batch returns the current batch.
func (i *Batches) Batch() Batch { return i.batch }

// Err returns the error that ended the iteration, or nil if the iteration reached its end.
func (i *Batches) Err() error { return i.err }

// Records iterates over a segment's records by ordinal, with a buffer of 64 KiB.
type Records struct {
	pages   pageReader
	counts  Counts // counts in the header minus what was read
	total   int
	ordinal int
	record  Record
	err     error
}

// Records returns an iterator over the records. The first call of Next moves it to the first
// record.
func (r *Reader) Records() *Records {
	return &Records{pages: r.stream(recordsSection), counts: r.header.counts,
		total: r.header.counts.Records, ordinal: -1}
}

// Next moves to the next record. It returns false after the last record or after an error; see Err.
func (i *Records) Next() bool {
	if i.err != nil {
		return false
	}
	if i.ordinal+1 == i.total {
		i.err = i.atEnd()
		return false
	}
	if i.record, i.err = readRecord(&i.pages); i.err != nil {
		return false
	}
	i.ordinal++
	i.counts.BodyBytes -= int64(i.record.BodyBytes)
	if i.record.Tombstone {
		i.counts.Tombstones--
	}
	if i.record.NullKey {
		i.counts.NullKeys--
	}
	return true
}

// atEnd compares the sums over all records with the header.
func (i *Records) atEnd() error {
	if err := i.pages.atEnd(); err != nil {
		return err
	}
	if c := i.counts; c.BodyBytes != 0 || c.Tombstones != 0 || c.NullKeys != 0 {
		return fmt.Errorf("%w: %d bytes of records are missing, %d tombstones, %d without a key",
			ErrCorrupt,
			c.BodyBytes, c.Tombstones, c.NullKeys)
	}
	return nil
}

// Ordinal returns the ordinal of the current record.
func (i *Records) Ordinal() uint32 { return uint32(i.ordinal) }

// Record returns the current record.
func (i *Records) Record() Record { return i.record }

// Err returns the error that ended the iteration, or nil if the iteration reached its end.
func (i *Records) Err() error { return i.err }
