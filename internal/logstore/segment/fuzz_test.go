package segment

import (
	"bytes"
	"errors"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// seedFiles returns the files of a sealed segment with base offset 3.
func seedFiles(f *testing.F) (data, offsets, times []byte) {
	m := &model{base: 3}
	for i := range int64(6) {
		m.batches = append(m.batches, batchOf(f, m.next(), 2, 1000+i, 60))
	}
	offsets, times = m.indexes(200)
	return m.bytes(), offsets, times
}

// FuzzOpen checks that for any content of the three files, Open either fails or returns a segment
// whose lookups terminate and stay within the file.
func FuzzOpen(f *testing.F) {
	data, offsets, times := seedFiles(f)
	f.Add(data, offsets, times)
	f.Add(data, []byte{}, []byte{})
	f.Add(data[:len(data)-1], offsets, times)
	f.Add([]byte{}, offsets, times)
	f.Add(data, bytes.Repeat([]byte{0xff}, 16), bytes.Repeat([]byte{0xff}, 24))
	f.Add(data, padded(offsets), padded(times))
	f.Fuzz(func(t *testing.T, data, offsets, times []byte) {
		mem := vfs.NewMem()
		for extension, content := range map[string][]byte{LogExtension: data,
			IndexExtension: offsets, TimeIndexExtension: times} {
			must(t, vfs.WriteFileAtomic(mem, "/"+Name(3, extension, ""), content))
		}
		s, err := Open(mem, "/", 3, Config{IndexIntervalBytes: 200})
		if err != nil {
			return
		}
		if s.SizeBytes() != int64(len(data)) {
			t.Fatalf("size %d, want %d", s.SizeBytes(), len(data))
		}
		for offset := range int64(20) {
			if p, err := s.Position(offset); err == nil && (p < 0 || p > int64(len(data))) {
				t.Fatalf("position of %d: %d", offset, p)
			}
			if p, ok, err := s.PositionForTimestamp(995 + offset); err == nil && ok &&
				(p < 0 || p >= int64(len(data))) {
				t.Fatalf("position for timestamp %d: %d", 995+offset, p)
			}
		}
		_ = s.Scan(0, func(int64, record.Batch) error { return nil })
		_ = s.Truncate(s.NextOffset() - 1)
		_ = s.Close()
	})
}

// FuzzRecover checks that for any content of the data file, Recover keeps only valid batches at the
// start of the file and removes the rest. A second Recover truncates nothing. Records in another
// message format are refused, and the file stays unchanged.
func FuzzRecover(f *testing.F) {
	data, _, _ := seedFiles(f)
	f.Add(data)
	f.Add(data[:len(data)-7])
	f.Add(append(bytes.Clone(data), data...))
	f.Add(make([]byte, 200))
	f.Add([]byte{})
	f.Add(append([]byte("\x00\x00\x00\x000000\x00\x00\x00"), bytes.Repeat([]byte("0"), 120)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := vfs.NewMem()
		name := "/" + Name(3, LogExtension, "")
		must(t, vfs.WriteFileAtomic(mem, name, data))
		m := &model{base: 3}
		s, found, err := Recover(mem, "/", 3, Config{IndexIntervalBytes: 200},
			func(b record.Batch) error {
				if b.CheckCRC() != nil || b.BaseOffset() < m.next() {
					t.Fatalf("visited an invalid batch at offset %d", b.BaseOffset())
				}
				m.batches = append(m.batches, bytes.Clone(b))
				return nil
			})
		left, readErr := mem.ReadFile(name)
		must(t, readErr)
		if errors.Is(err, record.ErrFormat) {
			if !bytes.Equal(left, data) {
				t.Fatalf("records in another format were changed: %d of %d bytes remain", len(left),
					len(data))
			}
			return
		}
		must(t, err)
		if !bytes.Equal(left, m.bytes()) || !bytes.HasPrefix(data, left) ||
			found.TruncatedBytes != int64(len(data)-len(left)) {
			t.Fatalf("recovered %+v, %d of %d bytes remain", found, len(left), len(data))
		}
		must(t, s.Close())
		_, found, err = Recover(mem, "/", 3, Config{IndexIntervalBytes: 200}, nil)
		must(t, err)
		if found.Cause != nil || found.Batches != int64(len(m.batches)) {
			t.Fatalf("second recovery %+v", found)
		}
	})
}
