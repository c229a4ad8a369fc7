package scale

import (
	"context"
	"sync"
	"time"
)

// measured is the CPU time of kube-apiserver and etcd for a status write with four watchers, by the
// number of partitions in the set (ADR 0250).
var measured = []struct {
	partitions int
	cpu        time.Duration
}{
	{1, 4 * time.Millisecond}, {60, 8 * time.Millisecond}, {250, 19 * time.Millisecond},
	{1000, 47 * time.Millisecond}, {4000, 154 * time.Millisecond},
}

const (
	// entryBytes is the size of a partition's two entries (ADR 0250).
	entryBytes = 88
	// The following constants estimate the costs of each further watcher for the API server: a copy
	// and the encryption of the event, at 1 GB/s, and a wake-up.
	watchersMeasured  = 4
	watcherBase       = 20 * time.Microsecond
	watcherNanosBytes = 1
	// roundTrip is the time of a request on the network, including the time of etcd's disk for a
	// write.
	roundTrip = 3 * time.Millisecond
)

// writeCPU returns the CPU time of a write. It interpolates between the measured sizes.
func writeCPU(partitions, watchers int) time.Duration {
	cpu := measured[len(measured)-1].cpu
	for i, m := range measured {
		if partitions <= m.partitions {
			cpu = m.cpu
			if i > 0 {
				before := measured[i-1]
				cpu = before.cpu + (m.cpu-before.cpu)*
					time.Duration(partitions-before.partitions)/
					time.Duration(m.partitions-before.partitions)
			}
			break
		}
	}
	perWatcher := watcherBase + time.Duration(partitions*entryBytes*watcherNanosBytes)
	return cpu + time.Duration(max(0, watchers-watchersMeasured))*perWatcher
}

// readCPU returns the CPU time of a read. In a read, the set is decoded and encoded once. In a
// write, it is decoded, validated, stored and read for the watches.
func readCPU(partitions int) time.Duration { return writeCPU(partitions, 0) / 4 }

// processor contains the cores of the API server. Requests wait for a core in the order of their
// arrival.
type processor struct {
	mu   sync.Mutex
	free []time.Time // times at which each core has completed all earlier requests
	used time.Duration
}

// run uses CPU time, and returns when this time has passed.
func (p *processor) run(ctx context.Context, cpu time.Duration) error {
	p.mu.Lock()
	index := 0
	for i := range p.free {
		if p.free[i].Before(p.free[index]) {
			index = i
		}
	}
	if now := time.Now(); p.free[index].Before(now) {
		p.free[index] = now
	}
	p.free[index] = p.free[index].Add(cpu)
	end := p.free[index]
	p.used += cpu
	p.mu.Unlock()
	return wait(ctx, time.Until(end))
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
