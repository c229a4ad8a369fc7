package wire

import (
	"bytes"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// fileOf creates a file with random content. Files in vfs.OS are sent with sendfile; files in
// vfs.Mem are read and written.
func fileOf(t *testing.T, fsys vfs.FS, size int) (vfs.File, []byte) {
	t.Helper()
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(content) // ChaCha8.Read never fails
	file, err := fsys.Create(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		// vfs.Mem does not contain the temporary directory.
		file, err = fsys.Create("/data")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if _, err := file.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	return file, content
}

func forEachFS(t *testing.T, run func(t *testing.T, fsys vfs.FS)) {
	t.Run("sendfile", func(t *testing.T) { run(t, vfs.OS{}) })
	t.Run("read", func(t *testing.T) { run(t, vfs.NewMem()) })
}

func TestFileRangesAreSentBetweenBytes(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys vfs.FS) {
		file, content := fileOf(t, fsys, 8<<20)
		s := startServer(t, nil)
		s.handler.chunks = []Chunk{
			{Bytes: []byte("head")},
			{File: file, Position: 5, Length: 3 << 20},
			{Bytes: []byte("between")},
			{File: file, Position: 100, Length: 10},
			{File: file, Position: 4 << 20, Length: 4 << 20},
			{Bytes: nil},
			{File: file, Position: 0, Length: copyBytesMax},
			{File: file, Position: 0, Length: copyBytesMax + 1},
			{Bytes: []byte("tail")},
		}
		want := bytes.Join([][]byte{
			[]byte("head"), content[5 : 5+3<<20], []byte("between"), content[100:110],
			content[4<<20:],
			content[:copyBytesMax], content[:copyBytesMax+1], []byte("tail"),
		}, nil)
		c := s.dial()
		for range 3 {
			c.send(request(keyFiles, 0, 3, nil))
			if id, body := c.reply(); id != 3 || !bytes.Equal(body, want) {
				t.Fatalf("reply %d of %d bytes differs from %d bytes", id, len(body), len(want))
			}
			<-s.handler.released
		}
	})
}

// TestSendfileLeavesTheFileOffset checks that sending a file does not move the file's offset. Many
// connections send from the same file while its writer appends to it.
func TestSendfileLeavesTheFileOffset(t *testing.T) {
	file, _ := fileOf(t, vfs.OS{}, 1<<20)
	s := startServer(t, nil)
	s.handler.chunks = []Chunk{{File: file, Position: 1, Length: 1<<20 - 1}}
	c := s.dial()
	c.send(request(keyFiles, 0, 3, nil))
	c.reply()
	osFile, ok := vfs.OSFile(file)
	if !ok {
		t.Fatal("the file is not an *os.File")
	}
	if position, err := osFile.Seek(0, io.SeekCurrent); position != 0 || err != nil {
		t.Errorf("got offset %d, error %v; want 0, nil", position, err)
	}
}

// TestPartialWritesAreResumed sends a reply that is larger than the sockets' buffers to a client
// that reads in small pieces.
func TestPartialWritesAreResumed(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys vfs.FS) {
		file, content := fileOf(t, fsys, 32<<20)
		s := startServer(t, nil)
		s.handler.chunks = []Chunk{{File: file, Length: len(content)}, {Bytes: []byte("end")}}
		c := s.dial()
		c.send(request(keyFiles, 0, 1, nil))
		got := make([]byte, 8+len(content)+3)
		for index := 0; index < len(got); {
			n, err := c.Read(got[index:min(len(got), index+10_000)])
			if err != nil {
				t.Fatalf("after %d bytes: %v", index, err)
			}
			index += n
		}
		if !bytes.Equal(got[8:8+len(content)], content) || string(got[8+len(content):]) != "end" {
			t.Error("the reply differs from its chunks")
		}
	})
}

// TestShortFileClosesTheConnection sends a range that ends beyond the end of its file. The
// connection must be closed, and no other byte may be sent in place of a missing one.
func TestShortFileClosesTheConnection(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys vfs.FS) {
		for _, size := range []int{copyBytesMax / 2, 1 << 20} {
			file, _ := fileOf(t, fsys, size)
			s := startServer(t, nil)
			s.handler.chunks = []Chunk{{File: file, Length: size + 1}}
			c := s.dial()
			c.send(request(keyFiles, 0, 1, nil))
			got, err := io.ReadAll(c)
			if err != nil || len(got) > 8+size {
				t.Errorf("got %d bytes, error %v; want at most %d, nil", len(got), err, 8+size)
			}
			<-s.handler.released
		}
	})
}

func TestBufferClasses(t *testing.T) {
	for n, want := range map[int]int{0: 512, 1: 512, 512: 512, 513: 1024, 1 << 20: 1 << 20,
		1<<20 + 1: 1<<20 + 1} {
		buf := getBuffer(n)
		if len(buf) != n || (n > 0 && cap(buf) < n) || cap(buf) > max(want, 2*n) {
			t.Errorf("getBuffer(%d): length %d, capacity %d, want %d", n, len(buf), cap(buf), want)
		}
		putBuffer(buf)
	}
	putBuffer(make([]byte, 1000)) // dropped, because no pool has buffers of this capacity
	if buf := getBuffer(1000); cap(buf) != 1024 {
		t.Errorf("capacity %d, want 1024", cap(buf))
	}
}
