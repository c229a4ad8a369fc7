package wire

import (
	"bufio"
	"bytes"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kbin"
)

// TestQuirk17InvalidFramesCloseTheConnection checks that a frame with an invalid size or API key
// closes the connection, and that the log contains the reason. For HTTP and TLS, the log names the
// protocol.
func TestQuirk17InvalidFramesCloseTheConnection(t *testing.T) {
	withKey := func(size int32, key int16) []byte {
		b := kbin.AppendInt32(nil, size)
		b = kbin.AppendInt16(b, key)
		return append(b, make([]byte, 6)...)
	}
	for name, c := range map[string]struct {
		sent   []byte
		reason string
		log    string
	}{
		"negative size": {kbin.AppendInt32(nil, -1), rejectTooLarge,
			"frame size -1 is not in"},
		"smallest size":     {kbin.AppendInt32(nil, math.MinInt32), rejectTooLarge, "frame size"},
		"no room for a key": {kbin.AppendInt32(nil, 7), rejectTooLarge, "frame size 7 is not in"},
		"above 100 MB": {kbin.AppendInt32(nil, frameBytesMax+1), rejectTooLarge,
			"frame size 104857601"},
		"above the limit of its API": {withKey(1001, keyEcho), rejectTooLarge,
			"frame of 1001 bytes for api key 1: at most 1000 are allowed"},
		"unknown API":  {withKey(100, 99), rejectUnknownAPI, "api key 99"},
		"negative API": {withKey(100, -1), rejectUnknownAPI, "api key -1"},
		"HTTP": {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), rejectHTTP,
			"looks like HTTP"},
		"HTTP POST": {[]byte("POST /api HTTP/1.1\r\n\r\n"), rejectHTTP, "looks like HTTP"},
		"TLS": {[]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00}, rejectTLS,
			"looks like a TLS handshake"},
		"client id too long": {append(withKey(12, keyEcho), 0x7f, 0xff, 'a', 'b'), rejectHeader,
			"malformed request header"},
		"no client id": {withKey(8, keyEcho), rejectHeader, "malformed request header"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, nil)
			s.handler.frameMax = 1000
			client := s.dial()
			client.send(c.sent)
			client.wantClosed()
			s.shutdown()
			if n := testutil.ToFloat64(s.metrics.rejections.WithLabelValues("test",
				c.reason)); n != 1 {
				t.Errorf("rejections with reason %s: got %v, want 1", c.reason, n)
			}
			if !strings.Contains(s.log.String(), c.log) {
				t.Errorf("log lacks %q:\n%s", c.log, s.log.String())
			}
		})
	}
}

func TestIncompleteFramesAreNotHandled(t *testing.T) {
	s := startServer(t, nil)
	whole := request(keyEcho, 0, 1, []byte("body"))
	for cut := 1; cut < len(whole); cut++ {
		c := s.dial()
		c.send(whole[:cut])
		if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		c.wantClosed()
	}
	if len(s.handler.got) != 0 {
		t.Error("an incomplete frame was handled")
	}
}

func TestStalledFrameClosesTheConnection(t *testing.T) {
	s := startServer(t, func(o *Options) { o.Stall = time.Millisecond })
	c := s.dial()
	c.send(request(keyEcho, 0, 1, make([]byte, 100))[:50])
	c.wantClosed()
}

func TestIdleConnectionIsClosed(t *testing.T) {
	s := startServer(t, func(o *Options) { o.Idle = time.Millisecond })
	s.dial().wantClosed()
}

// TestAnnouncedFrameSizeAllocatesLittle checks that a client that announces a frame of 90 MiB and
// sends 1 kB causes only small allocations.
func TestAnnouncedFrameSizeAllocatesLittle(t *testing.T) {
	s := startServer(t, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 2 {
		c := s.dial()
		c.send(append(kbin.AppendInt32(nil, 90<<20),
			request(keyEcho, 0, 1, make([]byte, 1000))[4:]...))
		if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		c.wantClosed()
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("got %d allocated bytes, want at most 8 MiB", grown)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(request(keyEcho, 0, 1, []byte("body"))[12:], false)
	f.Add(request(keyEcho, flexibleFrom, 1, []byte("body"))[12:], true)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f}, true) // client id null, 2^32-1 tags
	f.Fuzz(func(t *testing.T, rest []byte, flexible bool) {
		id, body, err := parseHeaderRest(rest, flexible)
		if err != nil {
			return
		}
		if len(id)+len(body)+2 > len(rest) {
			t.Errorf("%d bytes: got client id %q and a body of %d bytes, want less", len(rest), id,
				len(body))
		}
		if !bytes.HasSuffix(rest, body) {
			t.Error("the body is not the end of the frame")
		}
	})
}

// FuzzFrames checks that reading frames from arbitrary bytes ends, and that the frames are not
// longer than the bytes.
func FuzzFrames(f *testing.F) {
	f.Add(append(request(keyEcho, 0, 1, []byte("one")), request(keyWait, 3, 2, nil)...))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add(kbin.AppendInt32(nil, 90<<20))
	f.Fuzz(func(t *testing.T, stream []byte) {
		socket, peer := net.Pipe()
		defer socket.Close()
		defer peer.Close()
		c := newConnection(NewServer(Options{Handler: newTestHandler()}), socket)
		r := bufio.NewReader(bytes.NewReader(stream))
		taken := 0
		for {
			frame, err := c.readFrame(t.Context(), r)
			if err != nil {
				break
			}
			taken += 4 + prefixBytes + len(frame.rest)
			frame.release()
			c.idle <- struct{}{} // as if the request had its reply
		}
		if taken > len(stream) {
			t.Errorf("got frames of %d bytes, want at most the %d bytes sent", taken, len(stream))
		}
	})
}
