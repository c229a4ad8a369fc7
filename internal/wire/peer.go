package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
)

const (
	// peerResponseMax bounds a response, in bytes. A fetch response may exceed the requested size
	// by its first batch.
	peerResponseMax = 128 << 20
	// peerStall is how long a request or response that has begun may make no progress.
	peerStall = 30 * time.Second
	// peerLinger replaces peerStall after a cancellation: a response that is arriving is still
	// read, and a hung peer is not waited for.
	peerLinger = time.Second
	// interruptTimeout bounds the write of an interrupting request, during which Peer.mu is held.
	interruptTimeout = 100 * time.Millisecond
)

// errBadResponse is a response that does not follow the protocol; the connection must be closed.
var errBadResponse = errors.New("malformed response")

// Peer is a connection to another broker. One goroutine sends one request at a time; other
// goroutines may interrupt its wait. After an error it must be closed.
type Peer struct {
	socket   net.Conn
	clientID string
	out      []byte // buffer of the request, reused
	in       []byte // buffer of the response, reused up to peerKeep

	// mu guards what Interrupt and Do share. It is held while an interrupting request is written,
	// which does not take long: it has some twenty bytes and follows a request that the peer has
	// read.
	mu struct {
		sync.Mutex
		correlation int32
		waiting     bool  // a request was sent and is not answered yet
		interrupted bool  // an interrupting request was sent after that request
		pending     *Call // interrupting request to send after the next request
		// unanswered are the correlation ids of interrupting requests without a response: one, or
		// two for a moment.
		unanswered []int32
	}
}

// Call is a request to a peer.
type Call struct {
	Key, Version int16
	Flexible     bool                // the version's headers carry tags, in both directions
	Append       func([]byte) []byte // appends the body; nil: an empty body
}

// Dialer opens connections to other brokers; net.Dialer and tls.Dialer are Dialers.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// DialPeer connects to a broker's listener through dialer. clientID identifies this broker in the
// logs of the other broker.
func DialPeer(ctx context.Context, dialer Dialer, address, clientID string) (*Peer, error) {
	socket, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return NewPeer(socket, clientID), nil
}

// NewPeer returns a Peer over a connection that the caller has opened. The Peer owns it.
func NewPeer(socket net.Conn, clientID string) *Peer {
	return &Peer{socket: socket, clientID: clientID}
}

// Close closes the connection. It may be called while Do waits, which then fails.
func (p *Peer) Close() error { return p.socket.Close() }

// Do sends a request and returns the body of its response, which is valid until the next call. It
// waits for the response until ctx ends. A response that has begun is read to its end while it
// makes progress, unless ctx is cancelled.
func (p *Peer) Do(ctx context.Context, call Call) ([]byte, error) {
	id := p.correlate()
	p.out = p.frame(p.out[:0], id, call)
	if err := p.send(ctx, p.out); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	if err := p.sent(); err != nil {
		return nil, fmt.Errorf("send interrupting request: %w", err)
	}
	for {
		size, err := p.await(ctx)
		if err != nil {
			return nil, fmt.Errorf("await response: %w", err)
		}
		body, err := p.receive(ctx, size)
		if err != nil {
			return nil, fmt.Errorf("read response: %w", err)
		}
		r := kbin.Reader{Src: body}
		if of := r.Int32(); of != id {
			if p.takeUnanswered(of) {
				continue // this was the response to an interrupting request
			}
			return nil, fmt.Errorf("read response: %w: correlation id %d, want %d", errBadResponse,
				of, id)
		}
		p.answered()
		if call.Flexible {
			SkipTags(&r)
		}
		if !r.Ok() {
			return nil, fmt.Errorf("read response: %w", errBadResponse)
		}
		return r.Src, nil
	}
}

// Interrupt sends a request behind the request that Do waits for. The peer then ends the wait of
// the earlier request. If Do is not waiting, the interrupting request follows the next request of
// Do. The response to the interrupting request is read and discarded. Any goroutine may call it. A
// failure closes the connection, so that Do fails.
func (p *Peer) Interrupt(call Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.mu.waiting:
		p.mu.pending = &call
	case !p.mu.interrupted:
		_ = p.interruptLocked(call)
	}
}

func (p *Peer) interruptLocked(call Call) error {
	p.mu.interrupted = true
	p.mu.correlation++
	p.mu.unanswered = append(p.mu.unanswered, p.mu.correlation)
	err := p.socket.SetWriteDeadline(time.Now().Add(interruptTimeout))
	if err == nil {
		_, err = p.socket.Write(p.frame(nil, p.mu.correlation, call))
	}
	if err != nil { // a part may have been sent
		_ = p.socket.Close()
	}
	return err
}

// correlate returns the correlation id of the next request.
func (p *Peer) correlate() int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.correlation++
	return p.mu.correlation
}

// sent records that a request was sent, and sends the pending interrupting request.
func (p *Peer) sent() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting, p.mu.interrupted = true, false
	pending := p.mu.pending
	p.mu.pending = nil
	if pending == nil {
		return nil
	}
	return p.interruptLocked(*pending)
}

// answered records that the response was read.
func (p *Peer) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting = false
}

// takeUnanswered reports whether a correlation id is that of an interrupting request, and removes
// it.
func (p *Peer) takeUnanswered(id int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.mu.unanswered, id)
	if at >= 0 {
		p.mu.unanswered = slices.Delete(p.mu.unanswered, at, at+1)
	}
	return at >= 0
}

// frame appends one request frame.
func (p *Peer) frame(out []byte, correlation int32, call Call) []byte {
	begin := len(out)
	out = append(out, 0, 0, 0, 0)
	out = kbin.AppendInt16(out, call.Key)
	out = kbin.AppendInt16(out, call.Version)
	out = kbin.AppendInt32(out, correlation)
	out = kbin.AppendNullableString(out, &p.clientID)
	if call.Flexible {
		out = append(out, 0)
	}
	if call.Append != nil {
		out = call.Append(out)
	}
	binary.BigEndian.PutUint32(out[begin:], uint32(len(out)-begin-4))
	return out
}

func (p *Peer) send(ctx context.Context, frame []byte) error {
	step, done := bound(ctx, p.socket.SetWriteDeadline)
	defer done()
	if err := step(); err != nil {
		return err
	}
	_, err := p.socket.Write(frame)
	return err
}

// bound sets the deadlines of a read or write that is done in steps: step is called before each,
// and done after the last. step sets the deadline before it checks ctx, so that it never overrides
// an earlier one set by the end of ctx.
//
// Only a cancellation means that the response is not needed. An expired deadline does not: a large
// response over a slow line would never arrive.
func bound(ctx context.Context, deadline func(time.Time) error) (step func() error, done func()) {
	cancelled := func() bool { return errors.Is(ctx.Err(), context.Canceled) }
	linger := func() error { return deadline(time.Now().Add(peerLinger)) }
	hooked := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(hooked)
		if cancelled() {
			_ = linger()
		}
	})
	step = func() error {
		err := deadline(time.Now().Add(peerStall))
		if cancelled() {
			err = linger()
		}
		return err
	}
	done = func() {
		if !unhook() {
			<-hooked // else it could set a deadline for the next operation
		}
	}
	return step, done
}

// await waits for the size of the response, or the end of ctx. The deadline is reset before
// AfterFunc checks ctx, so the end of ctx is never overwritten.
func (p *Peer) await(ctx context.Context) (int, error) {
	if err := p.socket.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	unhook := context.AfterFunc(ctx, func() { _ = p.socket.SetReadDeadline(time.Unix(1, 0)) })
	var size [4]byte
	_, err := io.ReadFull(p.socket, size[:])
	if !unhook() && err == nil {
		// ctx ended while the response arrived. Its hook may still be about to set the past
		// deadline.
		err = ctx.Err()
	}
	if err != nil {
		return 0, errors.Join(ctx.Err(), err)
	}
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	if n < 4 || n > peerResponseMax {
		return 0, fmt.Errorf("%w: frame of %d bytes", errBadResponse, n)
	}
	return n, nil
}

// receive reads the rest of a response in steps: memory grows with the bytes that arrive, and not
// with the announced length.
func (p *Peer) receive(ctx context.Context, size int) ([]byte, error) {
	next, done := bound(ctx, p.socket.SetReadDeadline)
	defer done()
	if cap(p.in) > peerKeep && size <= peerKeep {
		p.in = nil // do not keep the buffer of one large response
	}
	in := p.in[:0]
	for len(in) < size {
		step := min(size-len(in), stepBytes)
		if cap(in)-len(in) < step {
			grown := make([]byte, len(in), min(size, max(2*cap(in), len(in)+step)))
			copy(grown, in)
			in = grown
		}
		if err := next(); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(p.socket, in[len(in):len(in)+step]); err != nil {
			return nil, unexpected(err)
		}
		in = in[:len(in)+step]
	}
	p.in = in
	return in, nil
}

// peerKeep is the largest buffer that is reused for the next response, in bytes: the size of a full
// fetch response.
const peerKeep = 12 << 20
