package wire

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/test/kit/await"
)

func TestConnectionsOfAnAddressAreLimited(t *testing.T) {
	s := startServer(t, func(o *Options) { o.ConnectionsMax = 4 })
	first, second := s.dial(), s.dial()
	for _, c := range []*client{first, second} {
		c.send(request(keyEcho, 0, 1, nil))
		c.reply()
	}
	s.dial().wantClosed()
	if n := testutil.ToFloat64(s.metrics.rejections.WithLabelValues("test",
		rejectAddress)); n != 1 {
		t.Errorf("metric of rejected connections: got %v, want 1", n)
	}
	if held := len(s.slots); held != 2 {
		t.Errorf("slots of 2 connections: got %d, want 2", held)
	}
	_ = first.Close()
	_ = second.Close()
	s.shutdown()
	if len(s.peers.held) != 0 {
		t.Errorf("connection counts after the shutdown: got %v, want none", s.peers.held)
	}
}

func TestPeerAddressesAreNormalized(t *testing.T) {
	for text, want := range map[string]string{"[::ffff:10.0.0.1]:9": "10.0.0.1",
		"10.0.0.1:1": "10.0.0.1", "[fe80::1%eth0]:7": "fe80::1"} {
		tcpAddr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))
		if got := addressOf(addressed{addr: tcpAddr}); got != netip.MustParseAddr(want) {
			t.Errorf("address of %s: got %v, want %s", text, got, want)
		}
	}
}

// addressed is a connection that implements only RemoteAddr.
type addressed struct {
	net.Conn
	addr net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.addr }

// TestMediumFramesShareABudget sends two medium frames that use up the budget. A third medium frame
// must be read only after one of them has been released, but a small frame immediately.
func TestMediumFramesShareABudget(t *testing.T) {
	const size, budget = 200 << 10, 512 << 10 // two buffers of 256 KiB
	s := startServer(t, func(o *Options) { o.MediumBytesMax = budget })
	holders := []*client{s.dial(), s.dial()}
	for _, c := range holders {
		c.send(request(keyWait, 0, 1, make([]byte, size)))
		<-s.handler.waiting
	}
	if s.medium.TryAcquire(1) {
		t.Fatal("frames being handled are not charged")
	}
	late := s.dial()
	go func() { _, _ = late.Write(request(keyEcho, 0, 7, make([]byte, size))) }()
	small := s.dial()
	small.send(request(keyEcho, 0, 8, make([]byte, 1000)))
	if id, _ := small.reply(); id != 8 {
		t.Errorf("reply %d", id)
	}
	_ = holders[0].Close()
	if id, body := late.reply(); id != 7 || len(body) != size {
		t.Errorf("reply %d of %d bytes", id, len(body))
	}
	_ = holders[1].Close()
	s.shutdown()
	if !s.medium.TryAcquire(budget) {
		t.Error("the budget was not returned")
	}
}

// TestIncompleteFrameIsClosedUnderContention sends half of a medium frame, which uses up the
// budget, while a complete frame waits for the budget. The connection with the incomplete frame
// must be closed after a tenth of Options.Stall, and the complete frame must be read.
func TestIncompleteFrameIsClosedUnderContention(t *testing.T) {
	const size = 200 << 10
	s := startServer(t, func(o *Options) { o.MediumBytesMax, o.Stall = 256<<10, 30*time.Second })
	if !s.medium.TryAcquire(256 << 10) {
		t.Fatal("the budget is not free")
	}
	half, whole := s.dial(), s.dial()
	half.send(request(keyEcho, 0, 1, make([]byte, size))[:size/2])
	awaitWaiting(t, s, 1)
	go func() { _, _ = whole.Write(request(keyEcho, 0, 2, make([]byte, size))) }()
	awaitWaiting(t, s, 2)
	begin := time.Now()
	s.medium.Release(256 << 10)
	if id, _ := whole.reply(); id != 2 {
		t.Errorf("reply %d", id)
	}
	half.wantClosed()
	if took := time.Since(begin); took < 2900*time.Millisecond {
		t.Errorf("the incomplete frame was closed after %v, want at least 2.9 s", took)
	}
}

// awaitWaiting waits until n frames wait for the budget.
func awaitWaiting(t *testing.T, s *testServer, n int64) {
	t.Helper()
	await.Until(t, fmt.Sprint(n, " frames wait"), func() bool { return s.medium.waiting.Load() >= n })
}
