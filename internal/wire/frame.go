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
	// frameBytesMax is the maximum size of a request (Kafka's socket.request.max.bytes).
	frameBytesMax = 100 << 20
	// headBytes is the number of bytes that are read before a buffer for the frame is allocated. They
	// contain the frame's size and the fields at the beginning of every request header.
	headBytes = 4 + prefixBytes
	// largeBytes is the size above which a frame is large. The memory of a large frame is reserved
	// separately (reserve), and is charged to Options.LargeBytesMax.
	largeBytes = 1 << 20
	// stepBytes is the number of bytes that are read or sent under one deadline. A slow peer keeps
	// its connection if it moves this many bytes within Options.Stall. Without this minimum rate, a
	// few peers could occupy the whole budget for large frames.
	stepBytes = 1 << 20
	// aheadBytesMax is the maximum size of a frame that is read while the previous request is still
	// being handled, and that is not charged to a budget. A larger frame is not read ahead, because it
	// would occupy memory while the previous request waits, possibly for minutes. Kafka does not read
	// frames ahead.
	aheadBytesMax = 16 << 10
	// If other frames wait for the budget when the read of a frame with at most largeBytes begins, the
	// frame must arrive within Options.Stall/contendedShare.
	contendedShare = 10
	// largePace is the minimum average rate of a large frame, in bytes per second, while other frames
	// wait for the budget; Options.Stall is added to the resulting time. With only the limit of
	// stepBytes per Options.Stall, a frame of 100 MiB could occupy its memory for 50 minutes.
	largePace = 1 << 20
)

// rejectedError is the error for an invalid request. It closes the connection. The reason is one of
// the reject constants and becomes a label of the metric.
type rejectedError struct {
	reason string
	detail string
}

func (e *rejectedError) Error() string { return e.detail }

// frame is one request frame, without its size field.
type frame struct {
	prefix
	rest    []byte // bytes after the prefix; memory from a pool or from reserve
	release func() // releases the memory of rest, and its bytes in a budget
}

// readFrame reads one frame. It returns io.EOF if the connection ends between two frames, and a
// *rejectedError for an invalid frame. If ctx ends while readFrame waits for a budget or for the
// previous request, it returns the error of ctx.
//
// It reads the first headBytes, and then the other bytes directly into their final buffer. It uses
// no buffered reader, from whose buffer the bytes would have to be copied. A small request
// therefore needs two system calls, but each batch is copied one time less
// (docs/internals/format/copies.md).
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
		return frame{}, c.reject(ctx, rejectSize(size, n))
	}
	c.readUntil(ctx, c.server.opts.Stall)
	if _, err := io.ReadFull(r, head[got:]); err != nil {
		return frame{}, unexpected(err)
	}
	f := frame{prefix: parsePrefix([prefixBytes]byte(head[4:]))}
	if err := c.checkLimit(f.key, n); err != nil {
		return frame{}, c.reject(ctx, err)
	}
	err = c.readInOrder(ctx, r, &f, n-prefixBytes)
	return f, err
}

// reject returns err after the previous request has got its reply, as in Kafka. If ctx ends first,
// it returns the error of ctx.
func (c *connection) reject(ctx context.Context, err error) error {
	if idleErr := c.awaitIdle(ctx); idleErr != nil {
		return idleErr
	}
	return err
}

// readInOrder reads the remaining n bytes of a frame, and waits until the previous request has got
// its reply. A small frame is read before the wait, and a larger one after it.
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

// checkLimit rejects frames for unknown APIs, and frames that exceed their API's limit. It is
// called before memory for the frame is allocated.
func (c *connection) checkLimit(key int16, size int) error {
	limit := c.server.opts.Handler.FrameMax(key)
	if c.reauthenticates(key) {
		limit = authFrameMax
	}
	switch {
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

// readRest reads the remaining n bytes of a frame into a buffer. Up to aheadBytesMax, the buffer
// comes from a pool. Up to largeBytes, it comes from a pool and is charged to a budget. A larger
// frame is charged to another budget, and its memory is reserved as a whole. Reserved memory is
// committed only as bytes arrive, so a peer that announces 100 MB and sends nothing occupies a part
// of the budget, but no memory.
//
// A frame that occupies bytes of a budget waits only for an append or for its peer (at most
// Options.Stall per step, and limited by largePace). It never waits for more bytes of a budget, so
// frames cannot deadlock.
func (c *connection) readRest(ctx context.Context, r io.Reader, f *frame, n int) error {
	buf, release, err := c.frameBuffer(ctx, n)
	if err != nil {
		return err
	}
	fair := c.server.opts.Stall + time.Duration(n)*time.Second/largePace
	stall := c.server.opts.Stall
	if n <= largeBytes && c.server.medium.contended() {
		stall /= contendedShare // the frame is read in one step, so largePace does not apply
	}
	for filled, begin := 0, time.Now(); filled < n; {
		if filled > 0 && time.Since(begin) > fair && c.server.large.contended() {
			release()
			return &rejectedError{rejectSlow,
				fmt.Sprintf("received %d of %d bytes of a frame in %v while other frames wait for memory",
					filled, n, fair)}
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

// frameBuffer returns a buffer of n bytes. release releases the buffer and the bytes of a budget
// that it occupies.
func (c *connection) frameBuffer(ctx context.Context, n int) (buf []byte, release func(),
	err error) {
	if n <= aheadBytesMax {
		buf = getBuffer(n)
		return buf, func() { putBuffer(buf) }, nil
	}
	if n <= largeBytes {
		return c.mediumBuffer(ctx, n)
	}
	// A frame that is larger than the budget is charged the whole budget, because acquire would never
	// return for more.
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

// mediumBuffer is like frameBuffer, for a frame with more than aheadBytesMax and at most
// largeBytes. The charge is the size of the pooled buffer, which may be larger than n.
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

// unexpected returns io.ErrUnexpectedEOF for io.EOF in the middle of a frame.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
