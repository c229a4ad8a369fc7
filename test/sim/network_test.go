package sim

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"
)

// Nodes of the network that are no brokers.
const (
	apiServer int32 = -1
	clients   int32 = -2
)

var (
	errUnreachable = errors.New("unreachable")
	errLost        = errors.New("connection lost")
)

// network is between nodes: messages take time, wait while one of the ends is paused, and are lost
// where it is cut.
type network struct {
	seed uint64
	mu   sync.Mutex
	cut  map[[2]int32]int // by how many faults
	held map[int32]int    // paused, by how many faults
	slow map[int32]time.Duration
	sent map[[2]int32]uint64
	news chan struct{} // closed, and made anew, when something of the above has changed
}

func newNetwork(seed uint64) *network {
	return &network{
		seed: seed, cut: map[[2]int32]int{}, held: map[int32]int{}, slow: map[int32]time.Duration{},
		sent: map[[2]int32]uint64{},
		news: make(chan struct{}),
	}
}

// change changes the network and wakes what waits for it.
func (n *network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.news)
	n.news = make(chan struct{})
}

// separate cuts both directions between two nodes once more (by 1), or once less (by -1).
func (n *network) separate(a, b int32, by int) {
	n.change(func() {
		n.cut[[2]int32{a, b}] = max(0, n.cut[[2]int32{a, b}]+by)
		n.cut[[2]int32{b, a}] = max(0, n.cut[[2]int32{b, a}]+by)
	})
}

func (n *network) hold(node int32, by int) { n.change(func() { n.held[node] += by }) }

func (n *network) delay(node int32, d time.Duration) { n.change(func() { n.slow[node] = d }) }

// chance is a number below 1<<16 that depends on nothing but the seed and how many messages went
// this way before.
func (n *network) chance(from, to int32) uint64 {
	n.sent[[2]int32{from, to}]++
	sum := fnv.New64a()
	for _, part := range []uint64{n.seed, uint64(uint32(from)), uint64(uint32(to)),
		n.sent[[2]int32{from, to}]} {
		for ; part > 0; part >>= 8 {
			_, _ = sum.Write([]byte{byte(part)})
		}
		_, _ = sum.Write([]byte{0xff})
	}
	return sum.Sum64() >> 16 & 0xffff
}

// luck is a number for a message that has arrived.
func (n *network) luck(from, to int32) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chance(from, to)
}

// state is how a message from one node to another fares now.
func (n *network) state(from, to int32) (cut, held bool, delay time.Duration, news chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	// up to 2 ms
	delay = n.slow[from] + n.slow[to] + 100*time.Microsecond +
		time.Duration(n.chance(from, to))*30*time.Nanosecond
	return n.cut[[2]int32{from, to}] > 0, n.held[from]+n.held[to] > 0, delay, n.news
}

// travel takes the time of a message from one node to another; an error says that it did not
// arrive. One that meets a cut is lost, which its sender does not notice before the cut heals, or
// its patience (ctx) ends.
func (n *network) travel(ctx context.Context, from, to int32) error {
	_, _, delay, _ := n.state(from, to)
	if err := sleep(ctx, delay); err != nil {
		return err
	}
	for lost := false; ; {
		cut, held, _, news := n.state(from, to)
		lost = lost || cut
		if !cut && !held {
			if lost {
				return errLost
			}
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sleep returns after d, or with an error at the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
