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
	// peerResponseMax limits the size of a response, in bytes. A fetch response can exceed the
	// requested size, because its first batch is always returned whole.
	peerResponseMax = 128 << 20
	// peerStall limits the time for each step of sending a request, or of reading a response after its
	// size has arrived.
	peerStall = 30 * time.Second
	// peerLinger replaces peerStall when the context of Do is canceled. It is long enough to finish
	// reading a response that is arriving, and short enough not to wait for a peer that hangs.
	peerLinger = time.Second
	// interruptTimeout limits the time for sending an interrupting request. Peer.mu is held during
	// this time.
	interruptTimeout = 100 * time.Millisecond
)

// errBadResponse is the error for a response that violates the protocol. The connection must then
// be closed.
var errBadResponse = errors.New("malformed response")

// Peer is a connection to another broker. One goroutine calls Do, which sends one request at a
// time. Other goroutines can end its wait with Interrupt. After an error, the Peer must be closed.
type Peer struct {
	socket   net.Conn
	clientID string
	out      []byte // buffer for requests; reused
	in       []byte // buffer for responses; reused if it is not larger than peerKeep

	// mu guards the fields that Interrupt and Do share. It is held while an interrupting request is
	// written. This takes little time, because the request has only about twenty bytes, and the peer
	// has already read the previous request.
	mu struct {
		sync.Mutex
		correlation int32
		waiting     bool  // true while Do waits for the response to a request
		interrupted bool  // true if an interrupting request was sent while Do waits
		pending     *Call // interrupting request to send after Do's next request
		// unanswered contains the correlation ids of interrupting requests whose responses have not been
		// read yet. Usually there is at most one, and never more than two.
		unanswered []int32
	}
}

// Call is a request to a peer.
type Call struct {
	Key, Version int16
	Flexible     bool                // true if the request and response headers contain tags
	Append       func([]byte) []byte // appends the body; nil: an empty body
}

// Dialer opens connections to other brokers. Both net.Dialer and tls.Dialer implement it.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// DialPeer connects to a broker's listener with dialer. clientID identifies this broker in the
// other broker's logs.
func DialPeer(ctx context.Context, dialer Dialer, address, clientID string) (*Peer, error) {
	socket, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return NewPeer(socket, clientID), nil
}

// NewPeer returns a Peer for an open connection. Peer.Close closes the connection.
func NewPeer(socket net.Conn, clientID string) *Peer {
	return &Peer{socket: socket, clientID: clientID}
}

// Close closes the connection. A call of Do that waits in another goroutine then fails.
func (p *Peer) Close() error { return p.socket.Close() }

// Do sends a request and returns the body of its response, which is valid until the next call of
// Do. It waits for the response until ctx ends. If the deadline of ctx expires while the response
// is arriving, Do reads the rest of the response as long as there is progress. If ctx is canceled,
// each further step of the response may take at most peerLinger.
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
		if found := r.Int32(); found != id {
			if p.takeUnanswered(found) {
				continue // this was the response to an interrupting request
			}
			return nil, fmt.Errorf("read response: %w: correlation id %d, want %d", errBadResponse,
				found, id)
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

// Interrupt makes the peer's handler stop waiting. If Do waits for a response, Interrupt sends an
// interrupting request; the peer then responds to the request of Do immediately. Otherwise the
// interrupting request is sent after the next request of Do. The response to the interrupting
// request is read and discarded.
//
// Any goroutine may call Interrupt. If it fails, it closes the connection, so that Do fails too.
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
	if err != nil { // part of the request may have been sent, so no other request may follow
		_ = p.socket.Close()
	}
	return err
}

// correlate returns a new correlation id for the next request.
func (p *Peer) correlate() int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.correlation++
	return p.mu.correlation
}

// sent records that Do has sent a request and waits for its response. It sends the pending
// interrupting request, if there is one.
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

// answered records that Do has read the response and no longer waits.
func (p *Peer) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting = false
}

// takeUnanswered reports whether a correlation id belongs to an interrupting request whose response
// has not been read yet, and removes the id from p.mu.unanswered.
func (p *Peer) takeUnanswered(id int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	index := slices.Index(p.mu.unanswered, id)
	if index >= 0 {
		p.mu.unanswered = slices.Delete(p.mu.unanswered, index, index+1)
	}
	return index >= 0
}

// frame appends one request frame to the buffer out.
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

// bound limits the duration of a read or write that takes place in steps. The caller must call step
// before each step, and done after the last one. step checks ctx after it has set its deadline, so
// it does not override the deadline that the AfterFunc sets when ctx is canceled.
//
// Only a cancellation shortens the deadline, because the caller then no longer needs the response.
// If ctx reaches its own deadline, the response is still needed, because otherwise a large response
// over a slow connection would never arrive.
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
			// Wait for the AfterFunc, because it could otherwise set a deadline for the next read or write.
			<-hooked
		}
	}
	return step, done
}

// await waits until the size of the response has arrived or ctx ends. It removes the deadline of
// the previous read before the AfterFunc can set one, so it does not override the deadline that the
// AfterFunc sets when ctx ends.
func (p *Peer) await(ctx context.Context) (int, error) {
	if err := p.socket.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	unhook := context.AfterFunc(ctx, func() { _ = p.socket.SetReadDeadline(time.Unix(1, 0)) })
	var size [4]byte
	_, err := io.ReadFull(p.socket, size[:])
	if !unhook() && err == nil {
		// ctx has ended while the size of the response was arriving. The AfterFunc may set its deadline
		// at any moment, so the response cannot be read.
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

// receive reads a response of the given size, without its size field. It reads in steps, so the
// memory that it uses depends on the bytes that arrive, and not on the announced size.
func (p *Peer) receive(ctx context.Context, size int) ([]byte, error) {
	next, done := bound(ctx, p.socket.SetReadDeadline)
	defer done()
	if cap(p.in) > peerKeep && size <= peerKeep {
		p.in = nil // release the buffer of an earlier, larger response
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

// peerKeep is the maximum size of a response buffer that is reused, in bytes. A full fetch response
// fits into it.
const peerKeep = 12 << 20
