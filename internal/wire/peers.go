package wire

import (
	"net"
	"net/netip"
	"sync"
)

// peerCounts counts connections by IP address. Clients behind one translated address count as one.
type peerCounts struct {
	most int // > 0
	lock sync.Mutex
	held map[netip.Addr]int // no entry is 0
}

// take counts one more, or returns false if the address has as many as it may.
func (p *peerCounts) take(peer netip.Addr) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.held[peer] >= p.most {
		return false
	}
	p.held[peer]++
	return true
}

// give counts one less.
func (p *peerCounts) give(peer netip.Addr) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.held[peer]--; p.held[peer] == 0 {
		delete(p.held, peer)
	}
}

// addressOf is the peer's IP address; an IPv4 one has one form, however it came. Sockets that are
// not TCP share the zero address.
func addressOf(socket net.Conn) netip.Addr {
	if tcp, ok := socket.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
