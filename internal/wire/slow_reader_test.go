package wire

import (
	"net"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// measuredConn is a connection without sendfile, such as a TLS connection. At each Write, where a
// slow reader would block the sender, it records how much memory the sender holds.
type measuredConn struct {
	net.Conn
	sender *sender
	most   int
}

func (c *measuredConn) Write(p []byte) (int, error) {
	held := len(p)
	for _, buf := range c.sender.copies {
		held += cap(buf)
	}
	c.most = max(c.most, held)
	return len(p), nil
}

// TestSlowReadersOverTLSHoldLittleMemory checks trap 29 of docs/internals/attacks.md: over TLS, the
// bytes of files are copied through memory. A client that stops reading may cause at most three
// steps of copyStepBytes to be held, whatever the reply, so 1,000 such clients cause less than 200
// MiB.
func TestSlowReadersOverTLSHoldLittleMemory(t *testing.T) {
	file, _ := fileOf(t, vfs.OS{}, 8<<20)
	replies := map[string][]Chunk{
		"one large range": {{Bytes: []byte("head")}, {File: file, Length: 8 << 20}},
	}
	for range 500 {
		replies["many ranges"] = append(replies["many ranges"], Chunk{Bytes: make([]byte, 60)},
			Chunk{File: file, Length: copyBytesMax})
		replies["mixed ranges"] = append(replies["mixed ranges"], Chunk{Bytes: make([]byte, 60)},
			Chunk{File: file, Length: 5000}, Chunk{File: file, Length: copyBytesMax + 1})
	}
	for name, chunks := range replies {
		conn := &measuredConn{}
		s := newSender(conn)
		conn.sender = &s
		if err := s.send(1, &Reply{Chunks: chunks}, func() {}); err != nil {
			t.Fatal(err)
		}
		if conn.most > 3*copyStepBytes {
			t.Errorf("%s: %d bytes are in memory, want at most %d", name, conn.most, 3*copyStepBytes)
		}
	}
}
