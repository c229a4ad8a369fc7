package keys

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// FuzzReader reads random sidecars. Reading must end, either with ascending entries, or with
// ErrCorrupt or ErrStale. The fuzzer generates the numbers in the header and the payloads of the
// sections. The test adds valid checksums, because a fuzzer would never find them.
func FuzzReader(f *testing.F) {
	w := newWorld(f, vfs.NewMem(), 5, shape{batches: 20, recordsMax: 8, keys: 30, valueMax: 3})
	r := w.scan(0, 0)
	content, err := w.fsys.ReadFile(w.name())
	w.must(err)
	var parts [][]byte
	for _, part := range fuzzedSections {
		where := r.header.extent(part)
		if part == entriesSection {
			where.bytes -= r.header.indexBytes
		}
		// Each section has one page.
		parts = append(parts, content[where.begin:where.begin+where.bytes-checksumBytes])
	}
	f.Add(content[:headerCRCAt], parts[0], parts[1], parts[2], parts[3], parts[4])
	f.Add(content[:headerCRCAt], parts[0], parts[1], []byte{}, parts[3], parts[4])
	f.Add(content[:headerCRCAt], parts[0], parts[1], parts[2], []byte{}, parts[4])
	f.Fuzz(func(t *testing.T, head, batches, records, entries, index, buckets []byte) {
		fsys := vfs.NewMem()
		want := assemble(t, fsys, head, batches, records, entries, index, buckets)
		if err := readAll(fsys, "/fuzzed", want); err != nil && !Unusable(err) {
			t.Errorf("%v, want ErrCorrupt or ErrStale", err)
		}
		reader, err := Open(fsys, "/fuzzed", want)
		if err != nil {
			return
		}
		defer func() { _ = reader.Close() }()
		ascending(t, reader, AllHashes)
		ascending(t, reader, Slice(3, 7))
		for newest := reader.Newest(Hash{}); newest.Next(); {
			if n := newest.Ordinal(); n >= RecordsMax {
				t.Fatalf("record %d", n)
			}
		}
		_ = reader.Verify(bytes.NewReader(batches))
	})
}

// fuzzedSections lists the sections in the order of the file.
var fuzzedSections = []section{batchesSection, recordsSection, entriesSection, indexSection,
	bucketsSection}

// assemble writes a sidecar with the given header and section payloads, and with valid checksums.
// It returns the Expect with which Open accepts the sidecar.
func assemble(t *testing.T, fsys vfs.FS, head []byte, parts ...[]byte) Expect {
	t.Helper()
	fixed := make([]byte, headerBytes)
	copy(fixed[8:headerCRCAt], head[min(len(head), 8):])
	fixed[8] = hashSIP24
	copy(fixed, headerMagic)
	digest := binary.BigEndian.Uint64(fixed[40:])
	var body bytes.Buffer
	put := func(index int, n int64) { binary.BigEndian.PutUint64(fixed[index:], uint64(n)) }
	var entriesBytes int64
	for i, part := range parts {
		capacity := []int{streamPageBytes, streamPageBytes, entryPageBytes, indexPageBytes,
			bucketPageBytes}[i]
		which := fuzzedSections[i]
		pages := pageWriter{out: &body, digest: digest, section: which, capacity: capacity}
		if err := errors.Join(pages.write(part), pages.end()); err != nil {
			t.Fatal(err)
		}
		switch which {
		case entriesSection:
			entriesBytes = pages.written
		case indexSection:
			put(indexBytesAt, pages.written)
			put(72+8*int(entriesSection-1), entriesBytes+pages.written)
		default:
			put(72+8*int(which-1), pages.written)
		}
	}
	binary.BigEndian.PutUint32(fixed[headerCRCAt:], crc32.Checksum(fixed[:headerCRCAt], castagnoli))
	file, err := fsys.Create("/fuzzed")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(slices.Concat(fixed, body.Bytes()), 0); err != nil {
		t.Fatal(err)
	}
	big := binary.BigEndian
	return Expect{
		Identity: Identity{Base: int64(big.Uint64(fixed[24:])),
			LogBytes: int64(big.Uint64(fixed[32:]))}, SaltID: big.Uint64(fixed[16:]),
	}
}

func ascending(t *testing.T, r *Reader, span Range) {
	t.Helper()
	// Check only the first and the last entry of each page. A reader does not verify the order of
	// the entries in between, because the writer has verified it.
	entries, n := r.Entries(span), 0
	var last Hash
	for {
		page, err := entries.NextPage()
		if err != nil {
			return
		}
		if first := page.At(0).Hash; n > 0 && first.Less(last) {
			t.Fatalf("%x after %x", first, last)
		}
		last = page.At(page.Len() - 1).Hash
		if n += page.Len(); n > r.Counts().Entries() {
			t.Fatalf("more than %d entries", r.Counts().Entries())
		}
	}
}

// FuzzItem decodes random bytes as a batch. If this succeeds, the batch must be unchanged after it
// is encoded and decoded again.
func FuzzItem(f *testing.F) {
	w := newWorld(f, vfs.NewMem(), 6, shape{batches: 30, recordsMax: 8, keys: 30, valueMax: 3})
	context := startOf(0)
	for _, b := range w.batches {
		f.Add(context.appendItem(nil, b))
		context.advance(b)
	}
	f.Fuzz(func(t *testing.T, item []byte) {
		context := startOf(0)
		b, err := context.readItem(paged(item))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := context.readItem(paged(context.appendItem(nil, b)))
		if err != nil || again != b {
			t.Errorf("%+v decodes as %+v, %v", b, again, err)
		}
	})
}

// paged returns a reader over a one-page section with the given payload.
func paged(payload []byte) *pageReader {
	var out bytes.Buffer
	pages := pageWriter{out: &out, section: batchesSection, capacity: len(payload) + 1}
	_ = errors.Join(pages.write(payload), pages.end())
	return &pageReader{
		file: bytes.NewReader(out.Bytes()), section: batchesSection,
		extent: extent{bytes: int64(out.Len())}, capacity: len(payload) + 1,
	}
}

// FuzzSort compares sortPacked with the sort of the standard library, including hashes that are not
// uniformly distributed.
func FuzzSort(f *testing.F) {
	f.Add(uint64(1), uint16(1000), byte(0))
	f.Add(uint64(2), uint16(5000), byte(60))
	f.Add(uint64(3), uint16(70), byte(64))
	f.Fuzz(func(t *testing.T, seed uint64, count uint16, narrow byte) {
		random := rand.New(rand.NewPCG(seed, 4))
		entries := make([]packed, count)
		for i := range entries {
			entries[i] = packed{random.Uint64() >> (narrow % 65), uint64(i)}
		}
		random.Shuffle(len(entries),
			func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		want := append([]packed(nil), entries...)
		sortSlow(want)
		got := sortPacked(entries, make([]packed, count))
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("entry %d is %x, want %x", i, got[i], want[i])
			}
		}
	})
}

func sortSlow(entries []packed) { slices.SortFunc(entries, compare) }
