package keys

import (
	"errors"
	"fmt"
	"io"

	"heartwood.dev/heartwood/internal/vfs"
)

// Expect identifies the data and the salt of a sidecar that may be used.
type Expect struct {
	Identity        // of the data file; if Digest is 0, the caller calls Verify once
	SaltID   uint64 // of the partition's salt
}

// Reader reads a sidecar. Open checks the header, and every page is checked when it is read. A
// Reader may be used concurrently, each iterator by one goroutine.
type Reader struct {
	file   vfs.File
	header header
	size   int64
	read   func(n int) error
}

// Open opens a sidecar and reads its header. The error wraps fs.ErrNotExist if there is none,
// ErrStale if it is of other data, ErrCorrupt if it is damaged: see Unusable.
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

// Unusable reports whether an error means that the sidecar has to be rebuilt, and not that the disk
// failed.
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
			"%w: of %d bytes from %d, digest %x, salt %x; want %d bytes from %d, digest %x, salt %x",
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

// OnRead sets a function that iterators created afterwards call before they read n bytes of the
// file, to count, throttle or cancel. An error from it ends the iteration.
func (r *Reader) OnRead(read func(n int) error) { r.read = read }

// Identity returns the identity of the data file, with the digest.
func (r *Reader) Identity() Identity { return r.header.identity }

// Counts returns the totals of the segment.
func (r *Reader) Counts() Counts { return r.header.counts }

// SizeBytes returns the size of the sidecar.
func (r *Reader) SizeBytes() int64 { return r.size }

// Verify compares the checksums of eight batches, spread over the data file, with the sidecar. It
// fails with ErrStale. It is for a caller that does not know the digest. A caller that later reads
// batches compares each with Batch.CRC.
func (r *Reader) Verify(data io.ReaderAt) error { return r.header.verify(data) }

// Close closes the file. Iterators must not be used afterwards.
func (r *Reader) Close() error { return r.file.Close() }

// stream returns a reader of the section of batches or of records.
func (r *Reader) stream(of section) pageReader {
	return pageReader{
		file: r.file, read: r.read, digest: r.header.identity.Digest, section: of,
		extent: r.header.extent(of), capacity: streamPageBytes,
	}
}

// Batches iterates over the batches of a segment, in the order of the log, with a buffer of 64 KiB.
type Batches struct {
	pages   pageReader
	left    int
	counts  Counts // of the header, less what was read
	size    int64  // of the data file
	context itemContext
	batch   Batch
	err     error
}

// Batches returns an iterator before the first batch.
func (r *Reader) Batches() *Batches {
	return &Batches{
		pages: r.stream(batchesSection), left: r.header.counts.Batches, counts: r.header.counts,
		size: r.header.identity.LogBytes, context: startOf(r.header.identity.Base),
	}
}

// Next moves to the next batch; it returns false at the end or on an error.
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

// atEnd checks the sums over all batches against the header.
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

// Err returns the error that ended the iteration; nil at the end.
func (i *Batches) Err() error { return i.err }

// Records iterates over the records of a segment, by ordinal, with a buffer of 64 KiB.
type Records struct {
	pages   pageReader
	counts  Counts // of the header, less what was read
	total   int
	ordinal int
	record  Record
	err     error
}

// Records returns an iterator before ordinal 0.
func (r *Reader) Records() *Records {
	return &Records{pages: r.stream(recordsSection), counts: r.header.counts,
		total: r.header.counts.Records, ordinal: -1}
}

// Next moves to the next record; it returns false at the end or on an error.
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

// atEnd checks the sums over all records against the header.
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

// Err returns the error that ended the iteration; nil at the end.
func (i *Records) Err() error { return i.err }
