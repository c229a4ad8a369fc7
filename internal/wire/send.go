package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"heartwood.dev/heartwood/internal/vfs"
)

const (
	// copyBytesMax is the largest file range that is read and sent with the bytes around it: below,
	// one more system call costs more than the copy.
	copyBytesMax = 16 << 10
	// gatherBytesMax is how many bytes of files are copied before they are written: a reply of many
	// small ranges, up to the 55 MiB of a fetch, must not be held in memory as a whole while a slow
	// client reads it.
	gatherBytesMax = 256 << 10
	// responseBytesMax is the largest size that the int32 of a frame holds.
	responseBytesMax = 1<<31 - 1
)

// errReplyTooLarge is a programming error: the handler must bound its replies.
var errReplyTooLarge = errors.New("reply exceeds the largest frame")

// sender writes replies to one socket: it gathers small parts into one write and sends large file
// ranges by sendfile where the platform has it.
type sender struct {
	socket net.Conn
	tcp    *net.TCPConn // nil: no sendfile
	gather net.Buffers  // content of the next write
	copies [][]byte     // pooled buffers within gather
	copied int          // bytes in copies, < gatherBytesMax + stepBytes
	head   [9]byte      // size, correlation id, and an empty tag section
}

func newSender(socket net.Conn) sender {
	tcp, _ := socket.(*net.TCPConn)
	return sender{socket: socket, tcp: tcp}
}

// send writes one response frame. extend is called before each step that may block.
// errReplyTooLarge is returned before anything was written; after any other error the stream may
// end within the frame, and the connection must be closed.
func (s *sender) send(correlationID int32, reply *Reply, extend func()) error {
	defer s.forget()
	// size is the number of bytes after the first four bytes of the frame.
	size := 4
	if reply.Flexible {
		size++
	}
	headBytes := 4 + size
	for i := range reply.Chunks {
		size += reply.Chunks[i].size()
	}
	if size > responseBytesMax {
		return errReplyTooLarge
	}
	binary.BigEndian.PutUint32(s.head[0:], uint32(size))
	binary.BigEndian.PutUint32(s.head[4:], uint32(correlationID))
	s.head[8] = 0
	s.gather = append(s.gather, s.head[:headBytes])
	if s.tcp != nil && anySendfile(reply.Chunks) {
		// With TCP_CORK the header travels with the first bytes of the file instead of in a packet
		// of its own.
		cork(s.tcp, true)
		defer cork(s.tcp, false)
	}
	for i := range reply.Chunks {
		if err := s.add(&reply.Chunks[i], extend); err != nil {
			return err
		}
	}
	return s.flush(extend)
}

// size returns the number of bytes that the chunk sends.
func (c *Chunk) size() int {
	if c.File != nil {
		return c.Length
	}
	return len(c.Bytes)
}

// anySendfile reports whether a chunk is large enough for sendfile. Without such a chunk the reply
// is sent in one write, and corking would be useless.
func anySendfile(chunks []Chunk) bool {
	for i := range chunks {
		if chunks[i].File != nil && chunks[i].Length > copyBytesMax {
			return true
		}
	}
	return false
}

// add appends a chunk to the gathered write, or flushes that and sends the chunk's file.
func (s *sender) add(c *Chunk, extend func()) error {
	if c.File == nil {
		if len(c.Bytes) > 0 {
			s.gather = append(s.gather, c.Bytes)
		}
		return nil
	}
	if c.Length <= copyBytesMax {
		if s.copied >= gatherBytesMax {
			if err := s.flush(extend); err != nil {
				return err
			}
		}
		return s.copyRange(c.File, c.Position, c.Length)
	}
	if err := s.flush(extend); err != nil {
		return err
	}
	if file, ok := vfs.OSFile(c.File); ok && s.tcp != nil && sendfileWorks {
		return s.sendRange(file, c.Position, c.Length, extend)
	}
	// Without sendfile (a file in memory, another platform) a range is read and written in steps,
	// with one step in memory at a time.
	for done := 0; done < c.Length; {
		n := min(c.Length-done, stepBytes)
		if err := s.copyRange(c.File, c.Position+int64(done), n); err != nil {
			return err
		}
		if err := s.flush(extend); err != nil {
			return err
		}
		done += n
	}
	return nil
}

// copyRange reads a range into a pooled buffer of the gathered write. It records the buffer before
// the read, so that forget returns it also when the read fails.
func (s *sender) copyRange(file vfs.File, position int64, n int) error {
	buf := getBuffer(n)
	s.copies = append(s.copies, buf)
	s.copied += n
	if read, err := file.ReadAt(buf, position); read < n {
		return fmt.Errorf("read file range of %s: %w", file.Name(), err)
	}
	s.gather = append(s.gather, buf)
	return nil
}

// sendRange sends a large range by sendfile in steps, each with a deadline of its own. A step may
// send less than requested.
func (s *sender) sendRange(file *os.File, position int64, n int, extend func()) error {
	for done := 0; done < n; {
		extend()
		sent, err := sendfile(s.tcp, file, position+int64(done), min(n-done, stepBytes))
		if err != nil {
			return fmt.Errorf("send file range of %s: %w", file.Name(), err)
		}
		done += sent
	}
	return nil
}

// flush writes the gathered parts, with one writev where the socket supports it.
func (s *sender) flush(extend func()) error {
	if len(s.gather) == 0 {
		return nil
	}
	extend()
	pending := s.gather // WriteTo consumes its receiver; s.gather keeps its capacity
	_, err := pending.WriteTo(s.socket)
	s.forget()
	return err
}

// forget discards the gathered parts, whether they were sent or not.
func (s *sender) forget() {
	for _, buf := range s.copies {
		putBuffer(buf)
	}
	clear(s.gather)
	clear(s.copies)
	s.gather, s.copies, s.copied = s.gather[:0], s.copies[:0], 0
}

// isReset reports whether the peer closed the connection.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed)
}
