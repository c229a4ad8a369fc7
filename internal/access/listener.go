package access

import (
	"net"
	"net/netip"
	"sync"
)

// addressConnectionsMax is the maximum number of open connections from one address to the HTTP
// port. Prometheus and the operator need only a few.
const addressConnectionsMax = 64

// Limit returns a listener that closes a new connection if its address already has
// addressConnectionsMax open connections. A limit on all connections together would let one client
// block the kubelet's probes, and the kubelet would then restart the broker.
func Limit(listener net.Listener) net.Listener {
	l := &limitedListener{Listener: listener}
	l.mu.open = map[netip.Addr]int{}
	return l
}

type limitedListener struct {
	net.Listener
	mu struct {
		sync.Mutex
		open map[netip.Addr]int // open connections by address; each count is above 0
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
		if err != nil { // the address is not an IP address
			return conn, nil //nolint:nilerr // it has no address to be limited
		}
		address := remote.Addr().Unmap().WithZone("")
		if l.add(address) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.remove(address) })}, nil
		}
		_ = conn.Close()
	}
}

// add counts a connection from the address if it is within the limit, and reports whether it is.
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
