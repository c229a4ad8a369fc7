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

// The golden files were compared with the output of Kafka's dump-log for the same files.
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
			t.Fatalf("%s: %v", line, err)
		}
	}
	if len(lines) < 70 {
		t.Errorf("%d lines", len(lines))
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
			t.Errorf("%q: %s and %s, want %s and %s", c.bytes, e, encoded, c.text, c.json)
		}
	}
}

// An invalid batch is printed with its problem. After bytes that are not a batch, the dump
// continues with the next file.
func TestDumpContinuesAfterDamage(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/p-0"))
	good := batchOf(t, compress.Gzip, 0,
		record.Record{Key: []byte("k"), Value: []byte("v"), Timestamp: 1})
	bad := batchOf(t, compress.Gzip, 1,
		record.Record{Key: []byte("k"), Value: []byte("v"), Timestamp: 2})
	bad[20]++ // the checksum
	must(t, vfs.WriteFileAtomic(mem, "/p-0/00000000000000000000.log",
		append(append(bytes.Clone(good), bad...), "nonsense"...)))
	must(t, vfs.WriteFileAtomic(mem, "/p-0/00000000000000000007.log", good))
	var out bytes.Buffer
	err := Dump(mem, []string{"/p-0"}, DumpOptions{}, &out)
	if !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("dump returned %v", err)
	}
	text := out.String()
	if strings.Count(text, "batch position=") != 3 ||
		strings.Count(text, `problem="corrupt record batch: checksum`) != 1 {
		t.Errorf("printed:\n%s", text)
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
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if problems, out := func() (int, string) {
		var out bytes.Buffer
		n, err := Verify(mem, []string{"/00000000000000000000.log"},
			VerifyOptions{BatchBytesMax: 4000}, &out)
		must(t, err)
		return n, out.String()
	}(); problems != 4 { // two batches, two missing indexes
		t.Errorf("%d problems:\n%s", problems, out)
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
			t.Errorf("%s: %d data files, want 2", path, n)
		}
	}
	// heartwood dev has a data directory per broker.
	for _, dir := range []string{"/dev/broker-0/p-0", "/dev/broker-1/p-0", "/dev/broker-1/p-1",
		"/dev/broker-1/p-2.0-delete", "/far/dev/broker-0/p-0"} {
		must(t, mem.MkdirAll(dir))
		must(t, vfs.WriteFileAtomic(mem, dir+"/00000000000000000000.log", nil))
	}
	must(t, vfs.WriteFileAtomic(mem, "/dev/notes.txt", nil))
	for path, want := range map[string]int{"/dev": 3, "/dev/broker-1": 2,
		"/dev/broker-1/p-2.0-delete": 1, "/far/dev": 1} {
		if n := strings.Count(dump(t, mem, DumpOptions{}, path), ".log\n"); n != want {
			t.Errorf("%s: %d data files, want %d", path, n, want)
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
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if _, err := Verify(mem, []string{"/missing"}, VerifyOptions{},
		&bytes.Buffer{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("verify of a missing file: %v", err)
	}
}

// A write error, for example because head has closed the pipe, ends the dump.
func TestDumpStopsWhenItsReaderCloses(t *testing.T) {
	closed := errors.New("closed")
	if err := Dump(vfs.OS{}, []string{vectors}, DumpOptions{Records: true},
		brokenPipe{closed}); !errors.Is(err, closed) {
		t.Errorf("dump returned %v", err)
	}
}

type brokenPipe struct{ err error }

func (b brokenPipe) Write([]byte) (int, error) { return 0, b.err }
