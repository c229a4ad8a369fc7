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
	// peerResponseMax bounds an answer. A fetch answers with what it was asked for, and may exceed
	// that by its first batch.
	peerResponseMax = 128 << 20
	// peerStall is how long a request or an answer that has begun may stand still.
	peerStall = 30 * time.Second
	// peerLinger is the same once nobody wants the answer any more: one that is coming is taken,
	// and who hangs is not waited for.
	peerLinger = time.Second
	// peerNudge bounds the writing of a nudge, for which others wait.
	peerNudge = 100 * time.Millisecond
)

// errBadResponse closes the connection to a peer that does not speak the protocol.
var errBadResponse = errors.New("malformed response")

// Peer is a connection to another broker: one request at a time, by one goroutine, which others may
// nudge. After an error it must be closed.
type Peer struct {
	socket   net.Conn
	clientID string
	out      []byte // of the request; kept for the next
	in       []byte // of the answer; kept for the next, unless it grew large

	// mu guards what Nudge and Do share. A nudge is written under it: some twenty bytes, behind a
	// request that the other side has read.
	mu struct {
		sync.Mutex
		correlation int32
		waits       bool  // a request was sent and is not answered yet
		nudged      bool  // it was followed by a nudge
		due         *Call // the nudge that is to follow the next request
		// correlation ids of nudges whose answers are to come; one at most, but for the moment of
		// its coming
		strays []int32
	}
}

// Call is a request to a peer.
type Call struct {
	Key, Version int16
	Flexible     bool                // the version's headers carry tags, in both directions
	Append       func([]byte) []byte // appends the body; nil: it is empty
}

// Dialer opens connections to other brokers; net.Dialer and tls.Dialer are Dialers.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// DialPeer connects to a broker's listener through dialer. clientID identifies this broker in the
// logs of the other.
func DialPeer(ctx context.Context, dialer Dialer, address, clientID string) (*Peer, error) {
	socket, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return NewPeer(socket, clientID), nil
}

// NewPeer is DialPeer for who has a connection already, and gives it away.
func NewPeer(socket net.Conn, clientID string) *Peer {
	return &Peer{socket: socket, clientID: clientID}
}

// Close ends the connection. It may be called while Do waits, which then fails.
func (p *Peer) Close() error { return p.socket.Close() }

// Do sends a request and returns the body of its answer, which is valid until the next call. It
// waits for the answer until ctx ends; one that has begun to come is read to its end: whatever ctx
// says, as long as it moves.
func (p *Peer) Do(ctx context.Context, call Call) ([]byte, error) {
	id := p.correlate()
	p.out = p.frame(p.out[:0], id, call)
	if err := p.send(ctx, p.out); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	if err := p.sent(); err != nil {
		return nil, fmt.Errorf("send nudge: %w", err)
	}
	for {
		size, err := p.await(ctx)
		if err != nil {
			return nil, fmt.Errorf("await answer: %w", err)
		}
		body, err := p.receive(ctx, size)
		if err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		r := kbin.Reader{Src: body}
		if of := r.Int32(); of != id {
			if p.isStray(of) {
				continue // of a nudge
			}
			return nil, fmt.Errorf("read answer: %w: correlation id %d, want %d", errBadResponse,
				of, id)
		}
		p.answered()
		if call.Flexible {
			SkipTags(&r)
		}
		if !r.Ok() {
			return nil, fmt.Errorf("read answer: %w", errBadResponse)
		}
		return r.Src, nil
	}
}

// Nudge sends a request behind the one that Do waits for, by which the other side may see that it
// had better answer that; if Do does not wait, it follows its next request. Its own answer is read
// and thrown away. It may be called by any goroutine. One that cannot be sent ends the connection,
// so that Do fails.
func (p *Peer) Interrupt(call Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.mu.waits:
		p.mu.due = &call
	case !p.mu.nudged:
		_ = p.nudgeLocked(call)
	}
}

func (p *Peer) nudgeLocked(call Call) error {
	p.mu.nudged = true
	p.mu.correlation++
	p.mu.strays = append(p.mu.strays, p.mu.correlation)
	err := p.socket.SetWriteDeadline(time.Now().Add(peerNudge))
	if err == nil {
		_, err = p.socket.Write(p.frame(nil, p.mu.correlation, call))
	}
	if err != nil { // half of it may have left
		_ = p.socket.Close()
	}
	return err
}

// correlate returns the id of the next request.
func (p *Peer) correlate() int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.correlation++
	return p.mu.correlation
}

// sent notes that a request is on its way, and sends the nudge behind it that is due.
func (p *Peer) sent() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waits, p.mu.nudged = true, false
	due := p.mu.due
	p.mu.due = nil
	if due == nil {
		return nil
	}
	return p.nudgeLocked(*due)
}

// answered notes that the answer is here.
func (p *Peer) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waits = false
}

// isStray tells whether an answer is that of a nudge, once.
func (p *Peer) isStray(id int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.mu.strays, id)
	if at >= 0 {
		p.mu.strays = slices.Delete(p.mu.strays, at, at+1)
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

// bound bounds steps of a read or a write: step is called before each, and done behind the last.
// The deadline is set before ctx is looked at, so that it is never later than what the end of ctx
// sets.
//
// Only a cancellation says that nobody wants the answer. That ctx ran out of time does not: a large
// answer over a slow line would never come.
func bound(ctx context.Context, deadline func(time.Time) error) (step func() error, done func()) {
	unwanted := func() bool { return errors.Is(ctx.Err(), context.Canceled) }
	linger := func() error { return deadline(time.Now().Add(peerLinger)) }
	hooked := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(hooked)
		if unwanted() {
			_ = linger()
		}
	})
	step = func() error {
		err := deadline(time.Now().Add(peerStall))
		if unwanted() {
			err = linger()
		}
		return err
	}
	done = func() {
		if !unhook() {
			<-hooked // else it could set its deadline for what comes next
		}
	}
	return step, done
}

// await waits for the size of the answer, or the end of ctx. The deadline is set before ctx is
// looked at, by AfterFunc: its end is never overwritten.
func (p *Peer) await(ctx context.Context) (int, error) {
	if err := p.socket.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	unhook := context.AfterFunc(ctx, func() { _ = p.socket.SetReadDeadline(time.Unix(1, 0)) })
	var size [4]byte
	_, err := io.ReadFull(p.socket, size[:])
	if !unhook() && err == nil {
		// ctx ended while the answer came. Its hook may still be about to set the past as deadline.
		err = ctx.Err()
	}
	if err != nil {
		return 0, errors.Join(ctx.Err(), err)
	}
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	if n < 4 || n > peerResponseMax {
		return 0, fmt.Errorf("%w: a frame of %d bytes", errBadResponse, n)
	}
	return n, nil
}

// receive reads the rest of an answer, step by step: memory is taken as bytes come, not because a
// length says so.
func (p *Peer) receive(ctx context.Context, size int) ([]byte, error) {
	next, done := bound(ctx, p.socket.SetReadDeadline)
	defer done()
	if cap(p.in) > peerKeep && size <= peerKeep {
		p.in = nil // one large answer is not to be paid for ever
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

// peerKeep is the largest buffer that is kept for the next answer: that of a full fetch.
const peerKeep = 12 << 20
