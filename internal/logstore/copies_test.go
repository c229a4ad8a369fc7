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

// outlets notes which memory codecs write into, and which memory data files are written from. Where
// both are the same, a byte was copied twice at most: into a chunk, where the codec has a block of
// its own, and by the kernel.
type outlets struct{ coded, written [][]byte }

// watch puts itself between a log and its codecs.
func (o *outlets) watch(log *Log) {
	unwatched := log.env.compress
	log.env.compress = func(site string) compress.Func {
		return func(dst *compress.Chunks, src []byte, codec compress.Codec, level int) error {
			err := unwatched(site)(dst, src, codec, level)
			o.coded = append(o.coded, dst.Pieces()...)
			return err
		}
	}
}

// elsewhere returns how many bytes were written in all, and how many of them not from where a codec
// left them.
func (o *outlets) elsewhere() (written, elsewhere int) {
	for _, w := range o.written {
		written += len(w)
		inside := false
		for _, c := range o.coded {
			from, at := uintptr(unsafe.Pointer(unsafe.SliceData(c))),
				uintptr(unsafe.Pointer(unsafe.SliceData(w)))
			inside = inside || from <= at && at+uintptr(len(w)) <= from+uintptr(len(c))
		}
		if !inside {
			elsewhere += len(w)
		}
	}
	return written, elsewhere
}

// outletDisk notes the writes of data files.
type outletDisk struct {
	vfs.FS
	outlets *outlets
}

func (d outletDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return outletFile{file, d.outlets}, nil
}

type outletFile struct {
	vfs.File
	outlets *outlets
}

func (f outletFile) WriteAt(p []byte, offset int64) (int, error) {
	f.outlets.written = append(f.outlets.written, p)
	return f.File.WriteAt(p, offset)
}

// TestAByteIsCopiedTwiceFromCodecToFile appends batches that the topic's codec compresses: into one
// chunk, and into several.
func TestAByteIsCopiedTwiceFromCodecToFile(t *testing.T) {
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		for _, values := range []int{10, 15_000} {
			t.Run(fmt.Sprintf("%s of %d records", codec, values), func(t *testing.T) {
				seen := &outlets{}
				store := openStore(t, outletDisk{vfs.NewMem(), seen})
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
					t.Errorf("%d bytes came in %d pieces", written, len(seen.written))
				}
				if keys := readKeys(t, log, 0); len(keys) != values {
					t.Errorf("%d records are read, %d were sent", len(keys), values)
				}
			})
		}
	}
}

// manyKeys are keys that do not compress well.
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
