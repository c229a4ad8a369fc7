package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
)

const (
	// peerResponseMax bounds an answer. A fetch answers with what it was asked for, and may exceed that by its first batch.
	peerResponseMax = 128 << 20
	// peerStall is how long a request or an answer that has begun may stand still.
	peerStall = 30 * time.Second
)

// errBadResponse closes the connection to a peer that does not speak the protocol.
var errBadResponse = errors.New("malformed response")

// Peer is a connection to another broker: one request at a time, by one goroutine. After an error it must be closed.
type Peer struct {
	socket      net.Conn
	clientID    string
	correlation int32
	out         []byte // of the request; kept for the next
	in          []byte // of the answer; kept for the next, unless it grew large
}

// Call is a request to a peer.
type Call struct {
	Key, Version int16
	Flexible     bool                // the version's headers carry tags, in both directions
	Append       func([]byte) []byte // appends the body
}

// DialPeer connects to a broker's listener. clientID is how it knows this one in its logs.
func DialPeer(ctx context.Context, address, clientID string) (*Peer, error) {
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Peer{socket: socket, clientID: clientID}, nil
}

// Close ends the connection. It may be called while Do waits, which then fails.
func (p *Peer) Close() error { return p.socket.Close() }

// Do sends a request and returns the body of its answer, which is valid until the next call. It waits for the answer until ctx ends; one
// that has begun to come is read to its end.
func (p *Peer) Do(ctx context.Context, call Call) ([]byte, error) {
	p.correlation++
	if err := p.send(call); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	size, err := p.await(ctx)
	if err != nil {
		return nil, fmt.Errorf("await answer: %w", err)
	}
	body, err := p.receive(size, call.Flexible)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return body, nil
}

// send writes one request frame.
func (p *Peer) send(call Call) error {
	out := p.out[:0]
	out = append(out, 0, 0, 0, 0)
	out = kbin.AppendInt16(out, call.Key)
	out = kbin.AppendInt16(out, call.Version)
	out = kbin.AppendInt32(out, p.correlation)
	out = kbin.AppendNullableString(out, &p.clientID)
	if call.Flexible {
		out = append(out, 0)
	}
	out = call.Append(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	p.out = out
	if err := p.socket.SetWriteDeadline(time.Now().Add(peerStall)); err != nil {
		return err
	}
	_, err := p.socket.Write(out)
	return err
}

// await waits for the size of the answer, or the end of ctx. The deadline is set before ctx is looked at, by AfterFunc: its end is never
// overwritten.
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

// receive reads the rest of the answer, step by step: memory is taken as bytes come, not because a length says so.
func (p *Peer) receive(size int, flexible bool) ([]byte, error) {
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
		if err := p.socket.SetReadDeadline(time.Now().Add(peerStall)); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(p.socket, in[len(in):len(in)+step]); err != nil {
			return nil, unexpected(err)
		}
		in = in[:len(in)+step]
	}
	p.in = in
	r := kbin.Reader{Src: in}
	if id := r.Int32(); id != p.correlation {
		return nil, fmt.Errorf("%w: correlation id %d, want %d", errBadResponse, id, p.correlation)
	}
	if flexible {
		SkipTags(&r)
	}
	if !r.Ok() {
		return nil, errBadResponse
	}
	return r.Src, nil
}

// peerKeep is the largest buffer that is kept for the next answer: that of a full fetch.
const peerKeep = 12 << 20
