package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// frameBytesMax is Kafka's socket.request.max.bytes: nothing larger is a request.
	frameBytesMax = 100 << 20
	// largeBytes is the size from which a frame is charged to the server's budget, and its buffer grows as bytes come.
	largeBytes = 1 << 20
	// stepBytes is read or sent between two looks at the deadline: a slow peer that moves is not cut off, and one that moves less
	// in Options.Stall is taken for stalled. Without such a pace a few peers could sit on the whole budget for large frames.
	stepBytes = 1 << 20
)

// rejectedError closes a connection for what its peer sent; reason is the metric's label.
type rejectedError struct {
	reason string
	detail string
}

func (e *rejectedError) Error() string { return e.detail }

// frame is one request as it came, after its size.
type frame struct {
	prefix
	rest    []byte // what follows the prefix; from the pool
	release func() // gives the buffer and the budget back
}

// readFrame reads one frame. It returns io.EOF if the connection ended between frames, an *rejectedError for what must not be
// taken, and ctx's error when the wait for budget was cut short.
func (c *connection) readFrame(ctx context.Context, r *bufio.Reader) (frame, error) {
	var size [4]byte
	c.readUntil(ctx, c.server.opts.Idle)
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return frame{}, err
	}
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	if n < prefixBytes || n > frameBytesMax {
		return frame{}, rejectSize(size, n)
	}
	var head [prefixBytes]byte
	c.readUntil(ctx, c.server.opts.Stall)
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, unexpected(err)
	}
	f := frame{prefix: parsePrefix(head)}
	if err := c.checkLimit(f.key, n); err != nil {
		return frame{}, err
	}
	err := c.readRest(ctx, r, &f, n-prefixBytes)
	return f, err
}

// checkLimit refuses frames of unknown APIs and those too large for theirs, before anything is allocated for them.
func (c *connection) checkLimit(key int16, size int) error {
	switch limit := c.server.opts.Handler.FrameMax(key); {
	case limit == 0:
		return &rejectedError{rejectUnknownAPI, fmt.Sprintf("request for api key %d, which is not served", key)}
	case size > limit:
		return &rejectedError{rejectTooLarge, fmt.Sprintf("frame of %d bytes for api key %d, %d are allowed", size, key, limit)}
	}
	return nil
}

// readRest fills the frame's buffer. A small one is taken whole. A large one is charged to the budget first, then grows by
// doubling: a peer that names 100 MB and sends nothing costs 1 MiB.
//
// Who holds a share of the budget waits for its peer (no longer than Options.Stall a step) or for an answer, never for more
// of the budget, so waiting for it cannot end in a deadlock.
func (c *connection) readRest(ctx context.Context, r *bufio.Reader, f *frame, n int) error {
	charged := int64(0)
	if n > largeBytes {
		charged = min(int64(n), c.server.opts.LargeBytesMax) // above the whole budget it would wait for ever
		if err := c.server.large.Acquire(ctx, charged); err != nil {
			return err
		}
	}
	buf := takeBuffer(min(n, largeBytes))
	// give sees the buf of the moment it is called, which growing has replaced by then.
	give := func() {
		giveBuffer(buf)
		if charged > 0 {
			c.server.large.Release(charged)
		}
	}
	for filled := 0; ; {
		step := min(len(buf), filled+stepBytes)
		c.readUntil(ctx, c.server.opts.Stall)
		if _, err := io.ReadFull(r, buf[filled:step]); err != nil {
			give()
			return unexpected(err)
		}
		filled = step
		if filled == n {
			f.rest, f.release = buf, give
			return nil
		}
		if filled == len(buf) {
			// Doubled, the copies sum up to less than twice the frame; grown by steps they would be quadratic.
			grown := takeBuffer(min(n, 2*filled))
			copy(grown, buf)
			giveBuffer(buf)
			buf = grown
		}
	}
}

// unexpected turns the end of the stream within a frame into the error it is.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
