package logstore

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// codecOutputs records the memory that codecs write into, and the memory that data files are
// written from. If both are the same, each byte was copied at most twice: by the codec into a chunk
// (if the codec needs its own block), and by the kernel.
type codecOutputs struct{ coded, written [][]byte }

// watch wraps the compression function of a log: o then records the memory that codecs write into.
func (o *codecOutputs) watch(log *Log) {
	unwatched := log.env.compress
	log.env.compress = func(site string) compress.Func {
		return func(dst *compress.Chunks, src []byte, codec compress.Codec, level int) error {
			err := unwatched(site)(dst, src, codec, level)
			o.coded = append(o.coded, dst.Pieces()...)
			return err
		}
	}
}

// elsewhere returns the number of bytes written to data files, and how many of these bytes came
// from memory that no codec wrote into.
func (o *codecOutputs) elsewhere() (written, elsewhere int) {
	for _, w := range o.written {
		written += len(w)
		inside := false
		for _, c := range o.coded {
			from, entry := uintptr(unsafe.Pointer(unsafe.SliceData(c))),
				uintptr(unsafe.Pointer(unsafe.SliceData(w)))
			inside = inside || from <= entry && entry+uintptr(len(w)) <= from+uintptr(len(c))
		}
		if !inside {
			elsewhere += len(w)
		}
	}
	return written, elsewhere
}

// codecOutputDisk records the memory that data files are written from.
type codecOutputDisk struct {
	vfs.FS
	codecOutputs *codecOutputs
}

func (d codecOutputDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return codecOutputFile{file, d.codecOutputs}, nil
}

type codecOutputFile struct {
	vfs.File
	codecOutputs *codecOutputs
}

func (f codecOutputFile) WriteAt(p []byte, offset int64) (int, error) {
	f.codecOutputs.written = append(f.codecOutputs.written, p)
	return f.File.WriteAt(p, offset)
}

// TestBytesAreCopiedTwiceFromCodecToFile appends batches that the topic's codec compresses into one
// chunk or into several. No byte is copied between the codec's output and the file.
func TestBytesAreCopiedTwiceFromCodecToFile(t *testing.T) {
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		for _, values := range []int{10, 15_000} {
			t.Run(fmt.Sprintf("%s of %d records", codec, values), func(t *testing.T) {
				seen := &codecOutputs{}
				store := openStore(t, codecOutputDisk{vfs.NewMem(), seen})
				log := createLog(t, store, settings(func(s *topicconfig.Settings) {
					s.KeepCodec, s.Codec, s.SegmentBytes, s.MessageBytesMax = false, codec, 1<<30,
						1<<30
				}))
				seen.watch(log)
				batch := keyed(t, manyKeys(values)...)
				appendBatch(t, log, batch)
				written, elsewhere := seen.elsewhere()
				if int64(written) != log.Stats().SizeBytes || written == 0 || elsewhere != 0 {
					t.Errorf("%d bytes in the file, %d written, %d of them copied a third time",
						log.Stats().SizeBytes, written, elsewhere)
				}
				if several := len(seen.written) > 1; several != (written > compress.ChunkBytes) {
					t.Errorf("%d bytes were written in %d pieces", written, len(seen.written))
				}
				if keys := readKeys(t, log, 0); len(keys) != values {
					t.Errorf("%d records are read, %d were sent", len(keys), values)
				}
			})
		}
	}
}

// manyKeys returns n keys that compress badly.
func manyKeys(n int) []string {
	keys := make([]string, n)
	state := uint64(1)
	for i := range keys {
		for len(keys[i]) < 24 {
			state = state*6364136223846793005 + 1442695040888963407
			keys[i] += fmt.Sprintf("%x", state>>16)
		}
	}
	return keys
}
