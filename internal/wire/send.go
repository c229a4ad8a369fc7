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
	// copyBytesMax is the maximum size of a file range that is copied and sent in the same write as
	// the bytes around it. For so few bytes, another system call costs more than the copy.
	copyBytesMax = 16 << 10
	// gatherBytesMax is the number of copied bytes at which the gathered parts are written. Without
	// this limit, a whole fetch response of many small ranges, up to 55 MiB, would be in memory while
	// a slow client reads it.
	gatherBytesMax = 256 << 10
	// copyStepBytes is the maximum number of bytes of a file range that are in memory while the range
	// is copied. It limits the memory for 1,000 slow readers over TLS to 64 MiB.
	copyStepBytes = 64 << 10
	// responseBytesMax is the largest value of the int32 that contains the size of a frame.
	responseBytesMax = 1<<31 - 1
)

// errReplyTooLarge is the error for a reply that exceeds the maximum size of a frame. It indicates
// a bug, because handlers limit the size of their replies.
var errReplyTooLarge = errors.New("reply exceeds the largest frame")

// sender writes replies to one socket. It gathers small parts into one write, and sends large file
// ranges with sendfile if the platform supports it.
type sender struct {
	socket net.Conn
	tcp    *net.TCPConn // nil if the socket is not TCP; then sendfile is not used
	gather net.Buffers  // gathered parts, the content of the next write
	copies [][]byte     // pooled buffers that are parts of gather
	copied int          // number of bytes in copies, < gatherBytesMax + copyStepBytes
	head   [9]byte      // size, correlation id, and an empty tag section
}

func newSender(socket net.Conn) sender {
	tcp, _ := socket.(*net.TCPConn)
	return sender{socket: socket, tcp: tcp}
}

// send writes one response frame. It calls extend before each step that can block. If it returns
// errReplyTooLarge, it has written nothing. After any other error, the connection must be closed,
// because a part of the frame may have been written.
func (s *sender) send(correlationID int32, reply *Reply, extend func()) error {
	defer s.forget()
	// The value of the size field does not include its own four bytes.
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
		// TCP_CORK makes the kernel send the header together with the first bytes of the file, and not in
		// a separate packet.
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

// size returns the number of bytes to send for the chunk.
func (c *Chunk) size() int {
	if c.File != nil {
		return c.Length
	}
	return len(c.Bytes)
}

// anySendfile reports whether one of the chunks is large enough for sendfile. A reply without such
// a chunk is usually sent in one write, and needs no TCP_CORK.
func anySendfile(chunks []Chunk) bool {
	for i := range chunks {
		if chunks[i].File != nil && chunks[i].Length > copyBytesMax {
			return true
		}
	}
	return false
}

// add adds a chunk to the gathered parts. If the chunk is a large file range, add writes the
// gathered parts and sends the range instead.
func (s *sender) add(c *Chunk, extend func()) error {
	if c.File == nil {
		if len(c.Bytes) > 0 {
			s.gather = append(s.gather, c.Bytes)
		}
		return nil
	}
	if c.Length <= copyBytesMax {
		if s.copied >= gatherBytesMax || s.tcp == nil && s.copied >= copyStepBytes {
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
	// Without sendfile (for a file in memory, or on another platform), the range is read and written
	// in steps, so that only one step is in memory at a time.
	for done := 0; done < c.Length; {
		n := min(c.Length-done, copyStepBytes)
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

// copyRange reads a file range into a pooled buffer, and adds the buffer to the gathered parts. It
// adds the buffer to s.copies before it reads, so that forget releases the buffer even if the read
// fails.
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

// sendRange sends a large file range with sendfile, in steps that each have their own deadline. A
// step can send fewer bytes than requested.
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

// flush writes the gathered parts, with one writev if the socket supports it.
func (s *sender) flush(extend func()) error {
	if len(s.gather) == 0 {
		return nil
	}
	extend()
	if s.tcp == nil && len(s.gather) > 1 {
		return s.flushCopied()
	}
	// Use a copy, because WriteTo modifies its receiver, and s.gather must keep its capacity.
	pending := s.gather
	_, err := pending.WriteTo(s.socket)
	s.forget()
	return err
}

// flushCopied writes the gathered parts without writev, because over TLS, each part would become a
// separate record. It copies parts into one buffer if together they fit into copyStepBytes.
func (s *sender) flushCopied() error {
	defer s.forget()
	out := getBuffer(copyStepBytes)[:0]
	defer func() { putBuffer(out) }()
	for _, part := range s.gather {
		if len(out)+len(part) > copyStepBytes && len(out) > 0 {
			if _, err := s.socket.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
		if len(part) > copyStepBytes {
			if _, err := s.socket.Write(part); err != nil {
				return err
			}
			continue
		}
		out = append(out, part...)
	}
	if len(out) == 0 {
		return nil
	}
	_, err := s.socket.Write(out)
	return err
}

// forget discards the gathered parts and releases their buffers, whether or not they were sent.
func (s *sender) forget() {
	for _, buf := range s.copies {
		putBuffer(buf)
	}
	clear(s.gather)
	clear(s.copies)
	s.gather, s.copies, s.copied = s.gather[:0], s.copies[:0], 0
}

// isReset reports whether err means that the connection was closed.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed)
}
