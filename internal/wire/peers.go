package wire

import (
	"net"
	"net/netip"
	"sync"
)

// peerCounts counts the open connections from each IP address. Clients behind the same NAT share
// one count.
type peerCounts struct {
	limit int // maximum number of connections per address; positive
	lock  sync.Mutex
	held  map[netip.Addr]int // number of connections; every entry is positive
}

// acquire adds a connection from an address. If the address has reached the limit, acquire adds
// nothing and returns false.
func (p *peerCounts) acquire(peer netip.Addr) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.held[peer] >= p.limit {
		return false
	}
	p.held[peer]++
	return true
}

func (p *peerCounts) release(peer netip.Addr) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.held[peer]--; p.held[peer] == 0 {
		delete(p.held, peer)
	}
}

// addressOf returns the IP address of the socket's peer. An IPv4 address that is mapped to IPv6 is
// returned as IPv4. For sockets that are not TCP, it returns the zero address.
func addressOf(socket net.Conn) netip.Addr {
	if tcp, ok := socket.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
