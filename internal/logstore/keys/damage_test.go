package keys

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// readAll reads the batches, records, entries and the index of a sidecar and returns the errors.
func readAll(fsys vfs.FS, name string, want Expect) error {
	r, err := Open(fsys, name, want)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	batches := r.Batches()
	for batches.Next() {
	}
	records := r.Records()
	for records.Next() {
	}
	entries := r.Entries(AllHashes)
	for entries.Next() {
	}
	return errors.Join(batches.Err(), records.Err(), entries.Err(), readIndex(r))
}

// readIndex reads all pages of the batch index, and all spans.
func readIndex(r *Reader) error {
	locator := r.Locator()
	for ordinal := range uint32(r.Counts().Records) {
		if _, err := locator.Batch(ordinal); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) replace(content []byte) {
	w.t.Helper()
	file, err := w.fsys.Create(w.name())
	w.must(err)
	_, err = file.WriteAt(content, 0)
	w.must(err)
	w.must(file.Close())
}

func (w *world) expect() Expect { return Expect{Identity: w.identity(), SaltID: w.salt.ID()} }

// TestEveryDamagedByteIsDetected checks that a sidecar with one damaged byte, at any position, is
// detected as unusable.
func TestEveryDamagedByteIsDetected(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), seed.New(t),
		shape{batches: 12, recordsMax: 8, keys: 30, valueMax: 3})
	w.scan(0, 0)
	content, err := w.fsys.ReadFile(w.name())
	w.must(err)
	for i := range content {
		damaged := append([]byte(nil), content...)
		damaged[i] ^= 1 << w.random.IntN(8)
		w.replace(damaged)
		if err := readAll(w.fsys, w.name(), w.expect()); !Unusable(err) {
			t.Errorf("seed %d: byte %d of %d damaged: %v", w.seed, i, len(content), err)
		}
	}
}

// TestDamagedPagesAreDetectedInEachSection checks that a sidecar with zeroed, truncated, shifted or
// swapped pages, or with another sidecar's pages, is detected as unusable, whichever section is
// damaged.
func TestDamagedPagesAreDetectedInEachSection(t *testing.T) {
	s := shape{batches: 11_000, recordsMax: 8, keys: 20_000, valueMax: 3, plain: true}
	w := newWorld(t, vfs.NewMem(), seed.New(t), s)
	r := w.scan(0, 0)
	content, err := w.fsys.ReadFile(w.name())
	w.must(err)
	s.salt = 4 // the other segment has the same shape, but another salt
	other := newWorld(t, vfs.NewMem(), w.seed, s)
	other.scan(0, 0)
	stale, err := other.fsys.ReadFile(other.name())
	w.must(err)

	for _, part := range []section{batchesSection, recordsSection, entriesSection, bucketsSection,
		indexSection} {
		where := r.header.extent(part)
		begin, end := where.begin, where.begin+where.bytes
		size := int64(map[section]int{entriesSection: 500,
			bucketsSection: bucketPageBytes + checksumBytes,
			indexSection:   indexPageBytes + checksumBytes}[part])
		if size == 0 {
			size = streamPageBytes + checksumBytes
		}
		if part == entriesSection {
			end -= r.header.indexBytes
		}
		if where.bytes < 2*size && part != recordsSection {
			t.Fatalf("section %d has only %d bytes", part, where.bytes)
		}
		for name, damage := range map[string]func(c []byte) []byte{
			"zeros": func(c []byte) []byte {
				clear(c[begin : begin+min(size,
					where.bytes)])
				return c
			},
			"end zeroed": func(c []byte) []byte { clear(c[end-20 : end]); return c },
			"truncated":  func(c []byte) []byte { return c[:end-1] },
			"shifted": func(c []byte) []byte {
				return append(c[:begin:begin],
					append([]byte{0}, c[begin:]...)...)
			},
			"of other data": func(c []byte) []byte {
				copy(c[begin:min(begin+size, end)], stale[begin:])
				return c
			},
			"swapped": func(c []byte) []byte {
				if where.bytes < 2*size {
					clear(c[begin : begin+1])
					return c
				}
				first := append([]byte(nil), c[begin:begin+size]...)
				copy(c[begin:], c[begin+size:begin+2*size])
				copy(c[begin+size:], first)
				return c
			},
		} {
			t.Run(fmt.Sprintf("section %d %s", part, name), func(t *testing.T) {
				w.replace(damage(append([]byte(nil), content...)))
				if err := readAll(w.fsys, w.name(), w.expect()); !Unusable(err) {
					t.Errorf("seed %d: %v", w.seed, err)
				}
			})
		}
	}
}

// TestDamageOutsideTheReadRangeIsNotDetected checks that iterators verify only the pages that they
// read: entries can be read although the section of records is damaged.
func TestDamageOutsideTheReadRangeIsNotDetected(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), seed.New(t),
		shape{batches: 40, recordsMax: 100, keys: 2000, plain: true})
	r := w.scan(0, 0)
	content, err := w.fsys.ReadFile(w.name())
	w.must(err)
	content[r.header.extent(recordsSection).begin]++
	w.replace(content)
	w.checkEntries(w.open())
	w.check(w.scan(0, 0)) // rebuild the sidecar
}

// TestStaleSidecarsAreRejected checks that Open fails with ErrStale if the sidecar belongs to other
// data or to another salt, or has another version.
func TestStaleSidecarsAreRejected(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), seed.New(t),
		shape{batches: 10, recordsMax: 8, keys: 30, valueMax: 3})
	r := w.scan(0, 0)
	right := Expect{Identity: r.Identity(), SaltID: w.salt.ID()}
	w.must(readAll(w.fsys, w.name(), right))
	for name, change := range map[string]func(e *Expect){
		"base":   func(e *Expect) { e.Base++ },
		"size":   func(e *Expect) { e.LogBytes-- },
		"digest": func(e *Expect) { e.Digest++ },
		"salt":   func(e *Expect) { e.SaltID++ },
	} {
		want := right
		change(&want)
		if _, err := Open(w.fsys, w.name(), want); !errors.Is(err, ErrStale) {
			t.Errorf("other %s: got error %v, want ErrStale", name, err)
		}
	}
	content, err := w.fsys.ReadFile(w.name())
	w.must(err)
	for _, index := range []int{7, 8} { // positions of the version and of the hash function
		newer := append([]byte(nil), content...)
		newer[index]++
		sum := crc32.Checksum(newer[:headerCRCAt], castagnoli)
		newer[headerCRCAt], newer[headerCRCAt+1] = byte(sum>>24), byte(sum>>16)
		newer[headerCRCAt+2], newer[headerCRCAt+3] = byte(sum>>8), byte(sum)
		w.replace(newer)
		if _, err := Open(w.fsys, w.name(), right); !errors.Is(err, ErrStale) {
			t.Errorf("other version in byte %d: got error %v, want ErrStale", index, err)
		}
	}
	w.must(w.fsys.Remove(w.name()))
	if _, err := Open(w.fsys, w.name(), right); !errors.Is(err, fs.ErrNotExist) || Unusable(err) {
		t.Errorf("missing file: got error %v, want fs.ErrNotExist", err)
	}
}

// TestVerifyDetectsOtherGenerations checks that Verify detects a change of the data file. After a
// start a broker does not know the digest, so Verify compares a few batches of the data file with
// the sidecar. It must detect a change of any of these batches.
func TestVerifyDetectsOtherGenerations(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), seed.New(t),
		shape{batches: 30, recordsMax: 8, keys: 30, valueMax: 3})
	r := w.scan(0, 0)
	w.must(r.Verify(w.segment.File()))
	// These are the first batch, the last batch, and two of the other six batches that are compared
	// (i*29/7).
	for _, number := range []int{0, 29, 4, 12} {
		b := w.batches[number]
		var crc [4]byte
		_, err := w.segment.File().ReadAt(crc[:], b.Position+batchCRCAt)
		w.must(err)
		changed := [4]byte{crc[0] ^ 1, crc[1], crc[2], crc[3]}
		_, err = w.segment.File().WriteAt(changed[:], b.Position+batchCRCAt)
		w.must(err)
		if err := r.Verify(w.segment.File()); !errors.Is(err, ErrStale) {
			t.Errorf("batch %d changed: got error %v, want ErrStale", number, err)
		}
		_, err = w.segment.File().WriteAt(crc[:], b.Position+batchCRCAt)
		w.must(err)
	}
	if err := r.Verify(noData{}); !errors.Is(err, ErrStale) {
		t.Errorf("empty data file: got error %v, want ErrStale", err)
	}
}

// noData is an empty data file.
type noData struct{}

func (noData) ReadAt([]byte, int64) (int, error) { return 0, errors.New("end of file") }

// TestBuildRejectsSpoolOfOtherSegment checks that Build fails with ErrMismatch if the spool was not
// built from the batches of the segment.
func TestBuildRejectsSpoolOfOtherSegment(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), seed.New(t),
		shape{batches: 10, recordsMax: 8, keys: 30, valueMax: 3})
	build := func(spool *Spool, want Identity) error {
		_, err := Build(t.Context(), w.fsys, spool, want, w.name(), Options{})
		return err
	}
	spool := w.spool()
	for _, b := range w.batches[:9] {
		w.must(spool.Append(b, w.records[b.FirstOrdinal:][:b.Records]))
	}
	if err := build(spool, w.identity()); !errors.Is(err, ErrMismatch) {
		t.Errorf("missing batch: got error %v, want ErrMismatch", err)
	}
	last := w.batches[9]
	records := w.records[last.FirstOrdinal:]
	w.must(spool.Append(last, records))
	other := spool.Identity()
	other.Digest++
	if err := build(spool, other); !errors.Is(err, ErrMismatch) {
		t.Errorf("other digest: got error %v, want ErrMismatch", err)
	}
	for name, change := range map[string]func(b *Batch){
		"position": func(b *Batch) { b.Position++ },
		"offset":   func(b *Batch) { b.BaseOffset, b.LastOffset = b.BaseOffset-1, b.LastOffset-1 },
		"count":    func(b *Batch) { b.Records++ },
		"size":     func(b *Batch) { b.SizeBytes = 60 },
	} {
		next := Batch{Position: spool.NextPosition(), SizeBytes: 61,
			BaseOffset: last.LastOffset + 1, LastOffset: last.LastOffset + 1}
		next.Records = 1
		change(&next)
		failing := w.spool()
		for _, b := range w.batches {
			w.must(failing.Append(b, w.records[b.FirstOrdinal:][:b.Records]))
		}
		if err := failing.Append(next, make([]KeyedRecord, 1)); !errors.Is(err, ErrMismatch) {
			t.Errorf("append of a batch with a wrong %s: got error %v, want ErrMismatch", name, err)
		}
		if err := build(failing, w.identity()); !errors.Is(err, ErrMismatch) {
			t.Errorf("build after a batch with a wrong %s: got error %v, want ErrMismatch", name, err)
		}
	}
	w.must(build(spool, w.identity()))
	w.must(spool.Discard())
	if err := build(spool, w.identity()); err == nil {
		t.Error("a sidecar was built from a discarded spool")
	}
}

// TestTooManyRecordsAreRejected checks that a batch that would bring the segment to RecordsMax
// records or more is rejected.
func TestTooManyRecordsAreRejected(t *testing.T) {
	context := startOf(0)
	context.ordinal = RecordsMax - 10
	b := Batch{SizeBytes: 61, LastOffset: 99, Records: 10, FirstOrdinal: RecordsMax - 10}
	if err := context.check(b); !errors.Is(err, ErrTooManyRecords) {
		t.Errorf("batch that completes RecordsMax records: got error %v, want ErrTooManyRecords", err)
	}
	b.Records = 9
	if err := context.check(b); err != nil {
		t.Errorf("batch that completes RecordsMax-1 records: %v", err)
	}
}
