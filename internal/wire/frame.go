package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// frameBytesMax is Kafka's socket.request.max.bytes: nothing larger is a request.
	frameBytesMax = 100 << 20
	// headBytes is what is read of a frame before its buffer is chosen: its size, and the prefix of
	// its header.
	headBytes = 4 + prefixBytes
	// largeBytes is the size from which a frame is charged to the server's budget, and lies in
	// memory of its own (reserve).
	largeBytes = 1 << 20
	// stepBytes is read or sent between two looks at the deadline: a slow peer that moves is not
	// cut off, and one that moves less in Options.Stall is taken for stalled. Without such a pace a
	// few peers could sit on the whole budget for large frames.
	stepBytes = 1 << 20
	// aheadBytesMax is the largest frame that is read while the request before it is in hand, and
	// that is charged to no budget. That request may wait for minutes, and a larger one behind it
	// would hold its memory as long; Kafka reads none ahead.
	aheadBytesMax = 16 << 10
	// crowdedShare is the share of Options.Stall that a frame has to come in while others wait for
	// the budget of its size.
	crowdedShare = 10
	// largePace is how fast a large frame has to come, in bytes a second and after a first
	// Options.Stall, once others wait for its share of the budget. At stepBytes in each Stall
	// alone, one of 100 MiB could hold its share for 50 minutes.
	largePace = 1 << 20
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
	rest    []byte // what follows the prefix; from a pool, or reserved
	release func() // gives the buffer and the budget back
}

// readFrame reads one frame. It returns io.EOF if the connection ended between frames, an
// *rejectedError for what must not be taken, and ctx's error when the wait for budget was cut
// short.
//
// It reads the head alone, then the rest where it is to stay: what a read-ahead brought along would
// have to be copied from there. That makes two system calls of a small request, and one copy less
// of every batch (docs/format/copies.md).
func (c *connection) readFrame(ctx context.Context, r io.Reader) (frame, error) {
	head := &c.head
	c.readUntil(ctx, c.server.opts.Idle)
	got, err := io.ReadAtLeast(r, head[:], 4)
	if err != nil {
		return frame{}, err
	}
	size := [4]byte(head[:])
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	if n < prefixBytes || n > frameBytesMax {
		return frame{}, rejectSize(size, n)
	}
	c.readUntil(ctx, c.server.opts.Stall)
	if _, err := io.ReadFull(r, head[got:]); err != nil {
		return frame{}, unexpected(err)
	}
	f := frame{prefix: parsePrefix([prefixBytes]byte(head[4:]))}
	if err := c.checkLimit(f.key, n); err != nil {
		return frame{}, err
	}
	err = c.readInTurn(ctx, r, &f, n-prefixBytes)
	return f, err
}

// readInTurn reads the rest of a frame, and waits until the one before it was answered: with a
// small one in hand, before a larger one.
func (c *connection) readInTurn(ctx context.Context, r io.Reader, f *frame, n int) error {
	if n > aheadBytesMax {
		if err := c.takeTurn(ctx); err != nil {
			return err
		}
		return c.readRest(ctx, r, f, n)
	}
	if err := c.readRest(ctx, r, f, n); err != nil {
		return err
	}
	if err := c.takeTurn(ctx); err != nil {
		f.release() // nobody takes it any more
		return err
	}
	return nil
}

// checkLimit refuses frames of unknown APIs and those too large for theirs, before anything is
// allocated for them.
func (c *connection) checkLimit(key int16, size int) error {
	switch limit := c.server.opts.Handler.FrameMax(key); {
	case limit == 0:
		return &rejectedError{rejectUnknownAPI,
			fmt.Sprintf("request for api key %d, which is not served", key)}
	case size > limit:
		return &rejectedError{rejectTooLarge,
			fmt.Sprintf("frame of %d bytes for api key %d, %d are allowed", size, key, limit)}
	}
	return nil
}

// readRest fills the frame's buffer. One up to largeBytes comes from the pool, and above
// aheadBytesMax is charged to the budget of its size. A large one is charged to the budget first,
// then reserved whole, which costs nothing until its bytes come: a peer that names 100 MB and sends
// nothing costs a share of the budget.
//
// Who holds a share of the budget waits for its peer (no longer than Options.Stall a step, and
// largePace overall) or for an append, never for more of the budget, so waiting for it cannot end
// in a deadlock.
func (c *connection) readRest(ctx context.Context, r io.Reader, f *frame, n int) error {
	buf, give, err := c.frameBuffer(ctx, n)
	if err != nil {
		return err
	}
	fair := c.server.opts.Stall + time.Duration(n)*time.Second/largePace
	stall := c.server.opts.Stall
	if n <= largeBytes && c.server.medium.wanted() {
		stall /= crowdedShare // it comes in one step, so there is no pace to look at
	}
	for filled, begin := 0, time.Now(); filled < n; {
		if filled > 0 && time.Since(begin) > fair && c.server.large.wanted() {
			give()
			return &rejectedError{rejectSlow,
				fmt.Sprintf("%d bytes of a frame of %d in %v, others wait for its memory", filled,
					n, fair)}
		}
		step := min(n, filled+stepBytes)
		c.readUntil(ctx, stall)
		if _, err := io.ReadFull(r, buf[filled:step]); err != nil {
			give()
			return unexpected(err)
		}
		filled = step
	}
	f.rest, f.release = buf, give
	return nil
}

// frameBuffer returns a buffer of n bytes, and how to give it back, with its share of the budget if
// it has one.
func (c *connection) frameBuffer(ctx context.Context, n int) (buf []byte, give func(), err error) {
	if n <= aheadBytesMax {
		buf = takeBuffer(n)
		return buf, func() { giveBuffer(buf) }, nil
	}
	if n <= largeBytes {
		return c.mediumBuffer(ctx, n)
	}
	// above the whole budget it would wait for ever
	charged := min(int64(n), c.server.opts.LargeBytesMax)
	if err := c.server.large.acquire(ctx, charged); err != nil {
		return nil, nil, err
	}
	buf, unreserve, err := reserve(n)
	if err != nil {
		c.server.large.Release(charged)
		return nil, nil, fmt.Errorf("reserve %d bytes for a request: %w", n, err)
	}
	return buf, func() {
		unreserve()
		c.server.large.Release(charged)
	}, nil
}

// mediumBuffer is frameBuffer for what is not large. Charged is the pooled buffer's whole size.
func (c *connection) mediumBuffer(ctx context.Context, n int) (buf []byte, give func(), err error) {
	charged := min(int64(1)<<(bufferClass(n)+bufferBitsMin), c.server.opts.MediumBytesMax)
	if err := c.server.medium.acquire(ctx, charged); err != nil {
		return nil, nil, err
	}
	buf = takeBuffer(n)
	return buf, func() {
		giveBuffer(buf)
		c.server.medium.Release(charged)
	}, nil
}

// unexpected turns the end of the stream within a frame into the error it is.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
