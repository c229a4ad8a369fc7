package access

import (
	"net"
	"net/netip"
	"sync"
)

// addressConnectionsMax is the maximum number of open connections of one address to the HTTP port.
// Prometheus and the operator need a few.
const addressConnectionsMax = 64

// Limit returns a listener that closes further connections of an address that has
// addressConnectionsMax open ones. A limit of all connections would let one client keep out the
// probes of the kubelet, which then restarts the broker.
func Limit(listener net.Listener) net.Listener {
	l := &limitedListener{Listener: listener}
	l.mu.open = map[netip.Addr]int{}
	return l
}

type limitedListener struct {
	net.Listener
	mu struct {
		sync.Mutex
		open map[netip.Addr]int // number of open connections, above 0
	}
}

// Accept returns the next connection within the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		if err != nil { // not a network connection
			return conn, nil //nolint:nilerr // it has no address to be limited
		}
		address := remote.Addr().Unmap().WithZone("")
		if l.add(address) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.remove(address) })}, nil
		}
		_ = conn.Close()
	}
}

// add counts a connection, and reports whether it is within the limit.
func (l *limitedListener) add(address netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.open[address] >= addressConnectionsMax {
		return false
	}
	l.mu.open[address]++
	return true
}

func (l *limitedListener) remove(address netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.open[address]--; l.mu.open[address] == 0 {
		delete(l.mu.open, address)
	}
}

type limitedConn struct {
	net.Conn
	release func()
}

// Close closes the connection. It may be called several times.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
