package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

func dump(t *testing.T, fsys vfs.FS, opts DumpOptions, paths ...string) string {
	t.Helper()
	var out bytes.Buffer
	must(t, Dump(fsys, paths, opts, &out))
	return out.String()
}

// TestDumpOfKafkasFiles compares dumps with golden files. The golden files were compared with the
// output of Kafka's dump-log for the same files.
func TestDumpOfKafkasFiles(t *testing.T) {
	wantGolden(t, "partition.txt", dump(t, vfs.OS{}, DumpOptions{}, vectors+"/vectors-0"))
	wantGolden(t, "records.txt",
		dump(t, vfs.OS{}, DumpOptions{Records: true, TextMax: 30}, vectors))
	wantGolden(t, "records.json",
		dump(t, vfs.OS{}, DumpOptions{Records: true, JSON: true, TextMax: 30},
			vectors+"/compacted-0"))
	const first = vectors + "/vectors-0/00000000000000000000"
	wantGolden(t, "indexes.txt",
		dump(t, vfs.OS{}, DumpOptions{}, first+".index", first+".timeindex"))
	wantGolden(t, "indexes.json",
		dump(t, vfs.OS{}, DumpOptions{JSON: true}, first+".index", first+".timeindex"))
}

func TestDumpPrintsOneJSONObjectALine(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(dump(t, vfs.OS{},
		DumpOptions{JSON: true, Records: true}, vectors)), "\n")
	for _, line := range lines {
		var object struct{ File string }
		if err := json.Unmarshal([]byte(line), &object); err != nil || object.File == "" {
			t.Fatalf("line %s: got file %q and error %v, want an object with a file", line,
				object.File, err)
		}
	}
	if len(lines) < 70 {
		t.Errorf("got %d lines, want at least 70", len(lines))
	}
}

func TestExcerptQuotesAndTruncates(t *testing.T) {
	for _, c := range []struct {
		bytes      []byte
		text, json string
	}{
		{nil, `null`, `null`},
		{[]byte{}, `""`, `""`},
		{[]byte("abcdef"), `"abcdef"`, `"abcdef"`},
		{[]byte("abcdefg"), `"abcdef"...(7 bytes)`, `"abcdef"`},
		{[]byte("a\"\n"), `"a\"\n"`, `"a\"\n"`},
		{[]byte("abcde\u00e9"), `"abcde"...(7 bytes)`, `"abcde"`},
		{[]byte{0, 1, 0xff}, `"\x00\x01\xff"`, `"\\x00\\x01\\xff"`},
		{bytes.Repeat([]byte{0x80}, 9), `"\x80\x80\x80"...(9 bytes)`, `"\\x80\\x80\\x80"`},
	} {
		e := excerpt{c.bytes, 6}
		encoded, err := json.Marshal(e)
		must(t, err)
		if e.String() != c.text || string(encoded) != c.json {
			t.Errorf("%q: got text %s and JSON %s, want %s and %s", c.bytes, e, encoded, c.text, c.json)
		}
	}
}

// TestDumpContinuesAfterDamage dumps a data file that contains a valid batch, a batch with a wrong
// checksum, and bytes that are not a batch. Dump prints both batches, the second one with its
// problem, and continues with the next file.
func TestDumpContinuesAfterDamage(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/p-0"))
	good := batchOf(t, compress.Gzip, 0,
		record.Record{Key: []byte("k"), Value: []byte("v"), Timestamp: 1})
	bad := batchOf(t, compress.Gzip, 1,
		record.Record{Key: []byte("k"), Value: []byte("v"), Timestamp: 2})
	bad[20]++ // changes the checksum
	must(t, vfs.WriteFileAtomic(mem, "/p-0/00000000000000000000.log",
		append(append(bytes.Clone(good), bad...), "nonsense"...)))
	must(t, vfs.WriteFileAtomic(mem, "/p-0/00000000000000000007.log", good))
	var out bytes.Buffer
	err := Dump(mem, []string{"/p-0"}, DumpOptions{}, &out)
	if !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("got error %v, want record.ErrCorrupt", err)
	}
	text := out.String()
	if strings.Count(text, "batch position=") != 3 ||
		strings.Count(text, `problem="corrupt record batch: checksum`) != 1 {
		t.Errorf("want 3 batches, 1 of them with a wrong checksum; got:\n%s", text)
	}
}

func TestDumpBoundsMemory(t *testing.T) {
	mem := vfs.NewMem()
	large := batchOf(t, compress.None, 0,
		record.Record{Key: []byte("k"), Value: make([]byte, 5000)})
	bomb := batchOf(t, compress.Zstd, 1,
		record.Record{Key: []byte("k"), Value: make([]byte, 500_000)})
	small := batchOf(t, compress.None, 2, record.Record{Key: []byte("small"), Value: nil})
	must(t, vfs.WriteFileAtomic(mem, "/00000000000000000000.log",
		bytes.Join([][]byte{large, bomb, small}, nil)))
	text := dump(t, mem, DumpOptions{Records: true, BatchBytesMax: 4000},
		"/00000000000000000000.log")
	for _, want := range []string{"exceeds the limit", "decompress zstd batch at offset 1",
		`key="small"`} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in the output; got:\n%s", want, text)
		}
	}
	if problems, out := func() (int, string) {
		var out bytes.Buffer
		n, err := Verify(mem, []string{"/00000000000000000000.log"},
			VerifyOptions{BatchBytesMax: 4000}, &out)
		must(t, err)
		return n, out.String()
	}(); problems != 2 { // two batches are too large
		t.Errorf("got %d problems, want 2:\n%s", problems, out)
	}
}

func TestPathsAreFilesPartitionsAndDataDirectories(t *testing.T) {
	mem := partition(t, "/data/p-0", 1, 1)
	must(t, mem.MkdirAll("/data/empty-0"))
	must(t, mem.MkdirAll("/nothing"))
	must(t, vfs.WriteFileAtomic(mem, "/data/meta.properties", nil))
	must(t, vfs.WriteFileAtomic(mem, "/data/p-0/00000000000000000005.log.deleted", []byte("gone")))
	for _, path := range []string{"/data", "/data/p-0"} {
		if n := strings.Count(dump(t, mem, DumpOptions{}, path), ".log\n"); n != 2 {
			t.Errorf("%s: got %d data files, want 2", path, n)
		}
	}
	// heartwood dev creates one data directory per broker.
	for _, dir := range []string{"/dev/broker-0/p-0", "/dev/broker-1/p-0", "/dev/broker-1/p-1",
		"/dev/broker-1/p-2.0-delete", "/far/dev/broker-0/p-0"} {
		must(t, mem.MkdirAll(dir))
		must(t, vfs.WriteFileAtomic(mem, dir+"/00000000000000000000.log", nil))
	}
	must(t, vfs.WriteFileAtomic(mem, "/dev/notes.txt", nil))
	for path, want := range map[string]int{"/dev": 3, "/dev/broker-1": 2,
		"/dev/broker-1/p-2.0-delete": 1, "/far/dev": 1} {
		if n := strings.Count(dump(t, mem, DumpOptions{}, path), ".log\n"); n != want {
			t.Errorf("%s: got %d data files, want %d", path, n, want)
		}
	}
	for path, want := range map[string]string{
		"/nothing":              "contains no segment",
		"/far":                  "contains no segment", // too many levels above the partitions
		"/data/meta.properties": "not a segment file",
		"/missing":              "does not exist",
	} {
		if err := Dump(mem, []string{path}, DumpOptions{}, &bytes.Buffer{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", path, err, want)
		}
	}
	if _, err := Verify(mem, []string{"/missing"}, VerifyOptions{},
		&bytes.Buffer{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("verify of a missing file: got error %v, want fs.ErrNotExist", err)
	}
}

// TestDumpStopsWhenItsReaderCloses checks that a write error ends the dump, for example when head
// has closed the pipe.
func TestDumpStopsWhenItsReaderCloses(t *testing.T) {
	closed := errors.New("closed")
	if err := Dump(vfs.OS{}, []string{vectors}, DumpOptions{Records: true},
		brokenPipe{closed}); !errors.Is(err, closed) {
		t.Errorf("got error %v, want the error of the writer", err)
	}
}

type brokenPipe struct{ err error }

func (b brokenPipe) Write([]byte) (int, error) { return 0, b.err }
