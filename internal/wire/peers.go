package wire

import (
	"net"
	"net/netip"
	"sync"
)

// peerCounts counts connections by IP address. Clients behind one translated address share one
// count.
type peerCounts struct {
	limit int // > 0
	lock  sync.Mutex
	held  map[netip.Addr]int // no entry is 0
}

// acquire counts one more connection, or returns false if the address has reached the limit.
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

// addressOf returns the peer's IP address, an IPv4 address in one form however it arrived. Sockets
// that are not TCP share the zero address.
func addressOf(socket net.Conn) netip.Addr {
	if tcp, ok := socket.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
