package inspect

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// vectors contains segments of Apache Kafka; see the README in this directory.
const vectors = "../segment/testdata/kafka-4.3.1"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s differs (-update rewrites it); got:\n%s", path, got)
	}
}

func batchOf(t testing.TB, codec compress.Codec, base int64,
	records ...record.Record) record.Batch {
	t.Helper()
	builder := record.NewBuilder(codec, compress.LevelDefault)
	builder.Reset(record.Identity{
		BaseOffset: base, LastOffsetDelta: int32(len(records) - 1), ProducerID: -1,
		ProducerEpoch: -1, BaseSequence: -1,
	})
	for i := range records {
		records[i].Offset = base + int64(i)
		builder.Add(&records[i])
	}
	built, err := builder.Build(nil)
	must(t, err)
	return built
}

// partition creates a partition's directory in memory, with the base offset 5. Each element of
// batches is the number of batches in one segment. A batch contains two records and takes about 100
// bytes. There is an index entry for every third batch, and one missing offset between two
// segments.
func partition(t testing.TB, dir string, batches ...int) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	must(t, mem.MkdirAll(dir))
	next := int64(5)
	for i, n := range batches {
		s, err := segment.Create(mem, dir, next, "", segment.Config{IndexIntervalBytes: 200})
		must(t, err)
		for range n {
			value := bytes.Repeat([]byte("v"), 20)
			must(t, s.Append(batchOf(t, compress.None, next,
				record.Record{Key: []byte("a"), Value: value, Timestamp: 1000 + next},
				record.Record{Key: []byte("b"), Value: nil, Timestamp: 1000 + next - 1},
			)))
			next += 2
		}
		if i < len(batches)-1 {
			must(t, s.Seal())
		}
		must(t, s.Close())
		next++
	}
	return mem
}

func verify(t testing.TB, fsys vfs.FS, paths ...string) (problems int, out string) {
	t.Helper()
	var buffer bytes.Buffer
	problems, err := Verify(fsys, paths, VerifyOptions{}, &buffer)
	must(t, err)
	return problems, buffer.String()
}
