package inspect

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// resealed corrects the length and the checksum of a damaged batch. Verify then detects the damage
// in the records and not in the header.
func resealed(b record.Batch) record.Batch {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// FuzzDumpAndVerify checks that Dump and Verify terminate, with a limited amount of memory, for any
// content of a data file and its index files.
func FuzzDumpAndVerify(f *testing.F) {
	mem := partition(f, "/p-0", 8, 1)
	var files [3][]byte
	for i, extension := range []string{".log", ".index", ".timeindex"} {
		content, err := mem.ReadFile("/p-0/00000000000000000005" + extension)
		must(f, err)
		files[i] = content
	}
	f.Add(files[0], files[1], files[2])
	f.Add(files[0][:100], files[1][:5], []byte{})
	f.Add(files[2], files[0], files[1])
	f.Fuzz(func(t *testing.T, log, index, times []byte) {
		mem := vfs.NewMem()
		if len(log) > record.HeaderBytes {
			resealed(record.Batch(log)) // one batch with a valid checksum
		}
		for extension, content := range map[string][]byte{".log": log, ".index": index,
			".timeindex": times} {
			must(t, vfs.WriteFileAtomic(mem, "/00000000000000000005"+extension, content))
		}
		const limit = 1 << 20
		_ = Dump(mem, []string{"/"}, DumpOptions{Records: true, BatchBytesMax: limit}, io.Discard)
		_ = Dump(mem, []string{"/00000000000000000005.index"}, DumpOptions{}, io.Discard)
		_ = Dump(mem, []string{"/00000000000000000005.timeindex"}, DumpOptions{JSON: true},
			io.Discard)
		_, _ = Verify(mem, []string{"/"}, VerifyOptions{BatchBytesMax: limit}, io.Discard)
	})
}
