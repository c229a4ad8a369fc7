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
	// frameBytesMax is Kafka's socket.request.max.bytes, the largest request.
	frameBytesMax = 100 << 20
	// headBytes is the number of bytes that are read before the buffer of a frame is chosen: the
	// size of the frame and the fixed prefix of the request header.
	headBytes = 4 + prefixBytes
	// largeBytes is the size above which a frame has memory of its own (reserve) and is charged to
	// Options.LargeBytesMax.
	largeBytes = 1 << 20
	// stepBytes is the number of bytes that are read or sent under one deadline. A slow peer that
	// makes progress keeps its connection; a connection that moves fewer bytes within Options.Stall
	// is closed. Without this minimum rate, a few peers could hold the whole budget of large
	// frames.
	stepBytes = 1 << 20
	// aheadBytesMax is the largest frame that is read while the request before it is being handled,
	// and that is charged to no budget. The earlier request may wait for minutes, and a larger
	// frame behind it would hold memory for as long. Kafka reads no frame ahead.
	aheadBytesMax = 16 << 10
	// contendedShare divides Options.Stall: a frame must arrive within that time while other frames
	// wait for the budget of its size.
	contendedShare = 10
	// largePace is the least rate of a large frame, in bytes a second and after a first
	// Options.Stall, once other frames wait for the budget. If the only limit were stepBytes in
	// each Options.Stall, a frame of 100 MiB could hold its share for 50 minutes.
	largePace = 1 << 20
)

// rejectedError closes a connection because of what its peer sent. reason is a reject constant, the
// label of the metric.
type rejectedError struct {
	reason string
	detail string
}

func (e *rejectedError) Error() string { return e.detail }

// frame is one request as it arrived, without its size.
type frame struct {
	prefix
	rest    []byte // bytes after the prefix; from a pool, or reserved
	release func() // returns the buffer and its share of the budget
}

// readFrame reads one frame. It returns io.EOF if the connection ended between frames, a
// *rejectedError for an invalid frame, and ctx's error when ctx ended while it waited for the
// budget.
//
// readFrame reads the head alone and then reads the rest directly into its final buffer: with a
// buffered reader, bytes that were read ahead would have to be copied into that buffer. A small
// request therefore takes two system calls, and every batch is copied one time less
// (docs/format/copies.md).
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
	err = c.readInOrder(ctx, r, &f, n-prefixBytes)
	return f, err
}

// readInOrder reads the rest of a frame and waits until the request before it is answered: a small
// frame is read before the wait, a larger one after it.
func (c *connection) readInOrder(ctx context.Context, r io.Reader, f *frame, n int) error {
	if n > aheadBytesMax {
		if err := c.awaitIdle(ctx); err != nil {
			return err
		}
		return c.readRest(ctx, r, f, n)
	}
	if err := c.readRest(ctx, r, f, n); err != nil {
		return err
	}
	if err := c.awaitIdle(ctx); err != nil {
		f.release()
		return err
	}
	return nil
}

// checkLimit rejects frames of unknown APIs and frames above the limit of their API, before
// anything is allocated for them.
func (c *connection) checkLimit(key int16, size int) error {
	switch limit := c.server.opts.Handler.FrameMax(key); {
	case limit == 0:
		return &rejectedError{rejectUnknownAPI,
			fmt.Sprintf("request for api key %d, which is not served", key)}
	case size > limit:
		return &rejectedError{rejectTooLarge,
			fmt.Sprintf("frame of %d bytes for api key %d: at most %d are allowed", size, key,
				limit)}
	}
	return nil
}

// readRest reads the rest of a frame into a buffer. A frame up to largeBytes has a pooled buffer,
// charged to a budget above aheadBytesMax. A larger frame is charged first and then reserved whole,
// which commits no memory until bytes arrive: a peer that announces 100 MB and sends nothing costs
// a share of the budget only.
//
// A frame that holds a share of the budget waits for its peer (at most Options.Stall for a step,
// and largePace overall) or for an append. It never waits for more of the budget, so frames cannot
// deadlock.
func (c *connection) readRest(ctx context.Context, r io.Reader, f *frame, n int) error {
	buf, release, err := c.frameBuffer(ctx, n)
	if err != nil {
		return err
	}
	fair := c.server.opts.Stall + time.Duration(n)*time.Second/largePace
	stall := c.server.opts.Stall
	if n <= largeBytes && c.server.medium.contended() {
		stall /= contendedShare // the frame arrives in one step, so no pace is measured
	}
	for filled, begin := 0, time.Now(); filled < n; {
		if filled > 0 && time.Since(begin) > fair && c.server.large.contended() {
			release()
			return &rejectedError{rejectSlow,
				fmt.Sprintf("%d bytes of a frame of %d arrived in %v while others wait for its memory", filled,
					n, fair)}
		}
		step := min(n, filled+stepBytes)
		c.readUntil(ctx, stall)
		if _, err := io.ReadFull(r, buf[filled:step]); err != nil {
			release()
			return unexpected(err)
		}
		filled = step
	}
	f.rest, f.release = buf, release
	return nil
}

// frameBuffer returns a buffer of n bytes, and the function that releases the buffer and its share
// of a budget, if it has one.
func (c *connection) frameBuffer(ctx context.Context, n int) (buf []byte, release func(),
	err error) {
	if n <= aheadBytesMax {
		buf = getBuffer(n)
		return buf, func() { putBuffer(buf) }, nil
	}
	if n <= largeBytes {
		return c.mediumBuffer(ctx, n)
	}
	// A request for more than the whole budget would never be granted.
	charged := min(int64(n), c.server.opts.LargeBytesMax)
	if err := c.server.large.acquire(ctx, charged); err != nil {
		return nil, nil, err
	}
	buf, unreserve, err := reserve(n)
	if err != nil {
		c.server.large.Release(charged)
		return nil, nil, fmt.Errorf("reserve memory for a request of %d bytes: %w", n, err)
	}
	return buf, func() {
		unreserve()
		c.server.large.Release(charged)
	}, nil
}

// mediumBuffer is frameBuffer of a frame that is not large. The whole pooled buffer is charged.
func (c *connection) mediumBuffer(ctx context.Context, n int) (buf []byte, release func(),
	err error) {
	charged := min(int64(1)<<(bufferClass(n)+bufferBitsMin), c.server.opts.MediumBytesMax)
	if err := c.server.medium.acquire(ctx, charged); err != nil {
		return nil, nil, err
	}
	buf = getBuffer(n)
	return buf, func() {
		putBuffer(buf)
		c.server.medium.Release(charged)
	}, nil
}

// unexpected turns io.EOF within a frame into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
