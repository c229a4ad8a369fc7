package segment

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// kafkaInterval is the index.interval.bytes with which Kafka wrote testdata.
const kafkaInterval = 200

// kafkaSegments calls run for each segment of testdata/kafka-4.3.1. It copies the segment into
// memory, because Open may write.
func kafkaSegments(t *testing.T, run func(t *testing.T, mem *vfs.Mem, m *model)) {
	logs, err := filepath.Glob("testdata/kafka-4.3.1/*/*.log")
	must(t, err)
	if len(logs) != 5 {
		t.Fatalf("%d segments in testdata, want 5", len(logs))
	}
	for _, name := range logs {
		t.Run(filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name), func(t *testing.T) {
			base, _, ok := ParseName(filepath.Base(name))
			if !ok {
				t.Fatalf("%s is not the name of a segment", name)
			}
			mem := vfs.NewMem()
			for _, extension := range extensions {
				content, err := os.ReadFile(filepath.Join(filepath.Dir(name),
					Name(base, extension, "")))
				if extension == TxnIndexExtension && errors.Is(err, fs.ErrNotExist) {
					continue // no aborted transactions
				}
				must(t, err)
				must(t, vfs.WriteFileAtomic(mem, "/"+Name(base, extension, ""), content))
			}
			m := &model{base: base}
			content, err := mem.ReadFile("/" + Name(base, LogExtension, ""))
			must(t, err)
			for rest := content; len(rest) > 0; {
				var b record.Batch
				b, rest, err = record.Next(rest)
				must(t, err)
				must(t, b.CheckCRC())
				m.batches = append(m.batches, b)
			}
			run(t, mem, m)
		})
	}
}

// TestOpenOfKafkasSegments checks that Open changes no file of a segment that Kafka has written.
func TestOpenOfKafkasSegments(t *testing.T) {
	kafkaSegments(t, func(t *testing.T, mem *vfs.Mem, m *model) {
		trace := vfs.NewTrace(mem, "/")
		s, err := Open(trace, "/", m.base, Config{IndexIntervalBytes: kafkaInterval})
		must(t, err)
		m.check(t, s, newRandom(t))
		must(t, s.Close())
		if changes := trace.Take(); changes != "" {
			t.Errorf("Kafka's files were changed:\n%s", changes)
		}
	})
}

// TestWritesKafkasBytes checks that a segment with Kafka's batches, appended or recovered, has the
// same index files as Kafka's segment, byte for byte.
func TestWritesKafkasBytes(t *testing.T) {
	kafkaSegments(t, func(t *testing.T, kafka *vfs.Mem, m *model) {
		ours := vfs.NewMem()
		s, err := Create(ours, "/", m.base, "", Config{IndexIntervalBytes: kafkaInterval})
		must(t, err)
		for _, b := range m.batches {
			must(t, s.Append(b))
		}
		must(t, s.Seal())
		must(t, s.Close())
		wantSameFiles(t, ours, kafka, m.base)
		s, _, err = Recover(ours, "/", m.base, Config{IndexIntervalBytes: kafkaInterval}, nil)
		must(t, err)
		must(t, s.Close())
		wantSameFiles(t, ours, kafka, m.base)
	})
}

func wantSameFiles(t *testing.T, got, want *vfs.Mem, base int64) {
	t.Helper()
	for _, extension := range extensions {
		name := "/" + Name(base, extension, "")
		wantBytes, err := want.ReadFile(name)
		if extension == TxnIndexExtension && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		gotBytes, err := got.ReadFile(name)
		must(t, err)
		if !bytes.Equal(gotBytes, wantBytes) {
			t.Errorf("%s:\n%x\nwant\n%x", name, gotBytes, wantBytes)
		}
	}
}

// TestOpenOfSegmentsOfAKilledKafka checks that Open rebuilds index files that are padded with
// zeros, as a killed Kafka broker leaves them.
func TestOpenOfSegmentsOfAKilledKafka(t *testing.T) {
	kafkaSegments(t, func(t *testing.T, mem *vfs.Mem, m *model) {
		want := mem.CrashClone()
		for _, extension := range []string{IndexExtension, TimeIndexExtension} {
			name := "/" + Name(m.base, extension, "")
			content, err := mem.ReadFile(name)
			must(t, err)
			must(t, vfs.WriteFileAtomic(mem, name, padded(content)))
		}
		s, err := Open(mem, "/", m.base, Config{IndexIntervalBytes: kafkaInterval})
		must(t, err)
		m.check(t, s, newRandom(t))
		must(t, s.Close())
		wantSameFiles(t, mem, want, m.base)
	})
}
