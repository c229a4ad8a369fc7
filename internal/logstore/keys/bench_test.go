package keys

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// spoolOf returns a spool with the given number of records, in batches of 100, with unique keys.
func spoolOf(b *testing.B, fsys vfs.FS, name string, records int) *Spool {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	spool := NewSpool(fsys, name, 0, Salt{1})
	batch := make([]KeyedRecord, 100)
	for index := 0; index < records; index += len(batch) {
		for i := range batch {
			batch[i] = KeyedRecord{Record: Record{BodyBytes: 1000},
				Hash: Hash{random.Uint64(), random.Uint32()}}
		}
		described := Batch{
			Position: spool.NextPosition(), SizeBytes: 1000, BaseOffset: int64(index),
			LastOffset: int64(index + len(batch) - 1), Records: len(batch),
		}
		if err := spool.Append(described, batch); err != nil {
			b.Fatal(err)
		}
	}
	return spool
}

// BenchmarkBuild builds the sidecar of a segment with 800,000 records. With 64 MiB all entries are
// sorted in memory; with 16 MiB they are sorted in several runs.
func BenchmarkBuild(b *testing.B) {
	const records = 800_000
	for _, memory := range []int64{64 << 20, 16 << 20} {
		b.Run(fmt.Sprintf("memory=%dMiB", memory>>20), func(b *testing.B) {
			dir := b.TempDir()
			spool := spoolOf(b, vfs.OS{}, dir+"/spool", records)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Build(b.Context(), vfs.OS{}, spool, spool.Identity(), dir+"/keys",
					Options{MemoryBytes: memory}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/entry")
		})
	}
}

// BenchmarkSort measures sorting without reading and writing.
func BenchmarkSort(b *testing.B) {
	const records = 800_000
	random := rand.New(rand.NewPCG(1, 1))
	unsorted := make([]packed, records)
	for i := range unsorted {
		unsorted[i] = packed{random.Uint64(), uint64(i)}
	}
	entries, scratch := make([]packed, records), make([]packed, records)
	for b.Loop() {
		copy(entries, unsorted)
		sortPacked(entries, scratch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/entry")
}

// BenchmarkEntries reads all entries in 256 hash slices, page by page.
func BenchmarkEntries(b *testing.B) {
	const records, slices = 800_000, 256
	dir := b.TempDir()
	spool := spoolOf(b, vfs.OS{}, dir+"/spool", records)
	if _, err := Build(b.Context(), vfs.OS{}, spool, spool.Identity(), dir+"/keys",
		Options{}); err != nil {
		b.Fatal(err)
	}
	r, err := Open(vfs.OS{}, dir+"/keys", Expect{Identity: spool.Identity(), SaltID: Salt{1}.ID()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	read := 0
	r.OnRead(func(n int) error { read += n; return nil })
	e := new(Entries)
	b.ReportAllocs()
	for b.Loop() {
		read = 0
		var sum uint64
		for number := range uint32(slices) {
			e.Reset(r, Slice(number, slices))
			for {
				page, err := e.NextPage()
				if err != nil {
					break
				}
				for i := range page.Len() {
					sum += page.At(i).Hash.High
				}
			}
			if err := e.Err(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/entry")
	b.ReportMetric(float64(read)/(16*records), "bytes-read/bytes-of-entries")
}
