package sim

import (
	"context"
	"errors"
	"hash/fnv"
	"runtime"
	"sync"
	"time"
)

// Ids of nodes that are not brokers.
const (
	apiServer int32 = -1
	clients   int32 = -2
)

var (
	errUnreachable = errors.New("unreachable")
	errLost        = errors.New("connection lost")
)

// network delivers messages between nodes. Messages take time, wait while a node is paused, and are
// lost while the nodes are disconnected.
type network struct {
	seed    uint64
	fast    bool // half of the messages take no time, unless they are delayed
	mu      sync.Mutex
	cut     map[[2]int32]int // number of faults that disconnect two nodes
	paused  map[int32]int    // number of faults that pause a node
	delays  map[int32]time.Duration
	sent    map[[2]int32]uint64
	changed chan struct{} // closed and replaced when cut, paused or delays change
}

func newNetwork(seed uint64) *network {
	return &network{
		seed: seed, cut: map[[2]int32]int{}, paused: map[int32]int{},
		delays:  map[int32]time.Duration{},
		sent:    map[[2]int32]uint64{},
		changed: make(chan struct{}),
	}
}

// change changes the network and wakes the messages that are waiting.
func (n *network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

// disconnect adds (by 1) or removes (by -1) a disconnection between two nodes, in both directions.
func (n *network) disconnect(a, b int32, by int) {
	n.change(func() {
		n.cut[[2]int32{a, b}] = max(0, n.cut[[2]int32{a, b}]+by)
		n.cut[[2]int32{b, a}] = max(0, n.cut[[2]int32{b, a}]+by)
	})
}

// cutOneWay adds (by 1) or removes (by -1) a disconnection in one direction.
func (n *network) cutOneWay(from, to int32, by int) {
	n.change(func() {
		n.cut[[2]int32{from, to}] = max(0, n.cut[[2]int32{from, to}]+by)
	})
}

func (n *network) pause(node int32, by int) { n.change(func() { n.paused[node] += by }) }

func (n *network) delay(node int32, d time.Duration) { n.change(func() { n.delays[node] = d }) }

// nextRandom returns a number below 1<<16 that depends only on the seed and on the number of
// earlier messages between the nodes.
func (n *network) nextRandom(from, to int32) uint64 {
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

// randomFor is like nextRandom, for a caller that does not hold mu.
func (n *network) randomFor(from, to int32) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nextRandom(from, to)
}

// state returns the state of the connection from one node to another.
func (n *network) state(from, to int32) (cut, paused bool, delay time.Duration,
	changed chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	// Without a fault, a message takes 0.1 to 2 ms.
	delay = n.delays[from] + n.delays[to]
	if random := n.nextRandom(from, to); !n.fast || random%2 == 0 {
		delay += 100*time.Microsecond + time.Duration(random)*30*time.Nanosecond
	}
	return n.cut[[2]int32{from, to}] > 0, n.paused[from]+n.paused[to] > 0, delay, n.changed
}

// send waits until a message has arrived. An error means that the message did not arrive. A message
// between disconnected nodes is lost. The sender detects the loss when the nodes are connected
// again, or when ctx ends.
func (n *network) send(ctx context.Context, from, to int32) error {
	_, _, delay, _ := n.state(from, to)
	if delay == 0 {
		runtime.Gosched()
	} else if err := sleep(ctx, delay); err != nil {
		return err
	}
	for lost := false; ; {
		cut, paused, _, changed := n.state(from, to)
		lost = lost || cut
		if !cut && !paused {
			if lost {
				return errLost
			}
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sleep returns nil after d, or an error when ctx ends.
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
