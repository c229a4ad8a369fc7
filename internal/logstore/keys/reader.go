package keys

import (
	"errors"
	"fmt"
	"io"

	"heartwood.dev/heartwood/internal/vfs"
)

// Expect is what a sidecar must be of to be used.
type Expect struct {
	Identity        // of the data file; Digest may be 0, and then Verify is due once
	SaltID   uint64 // of the partition's salt
}

// Reader reads a sidecar. Its header has been checked; every page is checked when it is read. It
// may be used by many goroutines, each with its own iterators.
type Reader struct {
	file   vfs.File
	header header
	size   int64
	read   func(n int) error
}

// Open opens a sidecar and reads its header. It fails with fs.ErrNotExist if there is none, with
// ErrStale if it tells of other data, with ErrCorrupt if it is damaged: see Unusable.
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

// Unusable tells whether an error says that a sidecar is to be made anew, and not that the disk
// fails.
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

// OnRead has the iterators that are made from now on tell of each n bytes before they are read from
// the file; an error of it ends them. It is for accounting, throttling and cancelling.
func (r *Reader) OnRead(read func(n int) error) { r.read = read }

// Identity is that of the data file the sidecar tells of, with the digest.
func (r *Reader) Identity() Identity { return r.header.identity }

// Counts are those of the whole segment.
func (r *Reader) Counts() Counts { return r.header.counts }

// SizeBytes is the size of the sidecar.
func (r *Reader) SizeBytes() int64 { return r.size }

// Verify holds the sidecar against its data file: it compares the checksums of eight batches,
// spread over the file. It fails with ErrStale. It is for who does not know the digest; who reads
// or skips the batches of the data later compares each with Batch.CRC.
func (r *Reader) Verify(data io.ReaderAt) error { return r.header.verify(data) }

// Close closes the file; iterators end with it.
func (r *Reader) Close() error { return r.file.Close() }

// stream returns a reader of one of the sections that are streams.
func (r *Reader) stream(of section) pageReader {
	return pageReader{
		file: r.file, read: r.read, digest: r.header.identity.Digest, section: of,
		place: r.header.place(of), capacity: streamPageBytes,
	}
}

// Batches iterates over the batches of a segment, in the order of the log, with a buffer of 64 KiB.
type Batches struct {
	pages  pageReader
	left   int
	counts Counts // of the header, less what was seen
	size   int64  // of the data file
	before before
	batch  Batch
	err    error
}

// Batches begins at the first batch.
func (r *Reader) Batches() *Batches {
	return &Batches{
		pages: r.stream(batchesSection), left: r.header.counts.Batches, counts: r.header.counts,
		size: r.header.identity.LogBytes, before: startOf(r.header.identity.Base),
	}
}

// Next moves to the next batch; false at the end, or at an error.
func (i *Batches) Next() bool {
	if i.err != nil {
		return false
	}
	if i.left == 0 {
		i.err = i.atEnd()
		return false
	}
	if i.batch, i.err = i.before.readItem(&i.pages); i.err != nil {
		return false
	}
	i.left--
	i.before.advance(i.batch)
	i.counts.Records -= i.batch.Records
	i.counts.BodyBytes -= i.batch.BodyBytes
	if i.batch.Opaque {
		i.counts.Opaque--
	}
	return true
}

// atEnd holds the sums over all batches against the header.
func (i *Batches) atEnd() error {
	if err := i.pages.atEnd(); err != nil {
		return err
	}
	if c := i.counts; i.before.position != i.size || c.Records != 0 || c.BodyBytes != 0 ||
		c.Opaque != 0 {
		return fmt.Errorf("%w: batches of %d bytes, want %d; %d records are missing", ErrCorrupt,
			i.before.position, i.size, c.Records)
	}
	return nil
}

// Batch is where the iterator stands.
func (i *Batches) Batch() Batch { return i.batch }

// Err is why Next returned false; nil at the end.
func (i *Batches) Err() error { return i.err }

// Records iterates over the records of a segment, by ordinal, with a buffer of 64 KiB.
type Records struct {
	pages   pageReader
	counts  Counts // of the header, less what was seen
	total   int
	ordinal int
	record  Record
	err     error
}

// Records begins at ordinal 0.
func (r *Reader) Records() *Records {
	return &Records{pages: r.stream(recordsSection), counts: r.header.counts,
		total: r.header.counts.Records, ordinal: -1}
}

// Next moves to the next record; false at the end, or at an error.
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

// atEnd holds the sums over all records against the header.
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

// Ordinal is that of the record where the iterator stands.
func (i *Records) Ordinal() uint32 { return uint32(i.ordinal) }

// Record is where the iterator stands.
func (i *Records) Record() Record { return i.record }

// Err is why Next returned false; nil at the end.
func (i *Records) Err() error { return i.err }
