package scale

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/placement"
)

// phase contains the measurements after an event.
type phase struct {
	name      string
	served    time.Duration // time until every partition has a serving leader
	inSync    time.Duration // time until every ISR contains exactly the live brokers
	writes    int
	conflicts int
	cpu       time.Duration // CPU time of the API server
}

func (p phase) String() string {
	return fmt.Sprintf("%-8s served %6.2f s, in sync %6.2f s, %4d writes, %4d conflicts, "+
		"%5.1f s CPU", p.name, p.served.Seconds(), p.inSync.Seconds(), p.writes, p.conflicts,
		p.cpu.Seconds())
}

// measure waits until the cluster has settled after an event.
func (c *cluster) measure(t *testing.T, name string, event func()) phase {
	p := phase{name: name, served: -1, inSync: -1, writes: -c.server.writes,
		conflicts: -c.server.conflict, cpu: -c.server.cpu.used}
	begin := time.Now()
	event()
	for p.served < 0 || p.inSync < 0 {
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		offline, outOfSync := c.count()
		if p.served < 0 && offline == 0 {
			p.served = time.Since(begin)
		}
		if p.inSync < 0 && offline == 0 && outOfSync == 0 {
			p.inSync = time.Since(begin)
		}
		if time.Since(begin) > 5*time.Minute {
			t.Fatalf("%s: %d partitions are offline, %d out of sync after 5 min", name, offline,
				outOfSync)
		}
	}
	time.Sleep(10 * time.Second) // waits for writes that follow
	synctest.Wait()
	p.writes += c.server.writes
	p.conflicts += c.server.conflict
	p.cpu += c.server.cpu.used
	return p
}

// simulate creates a cluster, kills a broker, and starts it again.
func simulate(t *testing.T, size size) (phases []phase) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		c := newCluster(ctx, size)
		phases = append(phases, c.measure(t, "creation", c.run))
		states, _ := c.brokerStates()
		state := states[0]
		failure := c.measure(t, "failure", func() {
			state.Liveness = placement.Down
			c.setState(0, state)
		})
		phases = append(phases, failure, c.measure(t, "return", func() {
			state.Liveness, state.Epoch = placement.Up, 2
			c.setState(0, state)
		}))
		cancel()
		c.tasks.Wait()
	})
	for _, p := range phases {
		t.Logf("%3d brokers, %5d partitions, %2d sets, %d cores: %s", size.brokers,
			size.partitions, size.sets, size.cores, p)
	}
	return phases
}

var large = flag.Bool("large", false, "simulate 100 brokers and 10,000 partitions, for minutes")

// TestSetsAtScale simulates the lab cluster, and a cluster of 20 brokers. It checks that a failure
// does not congest the API server with conflicts.
func TestSetsAtScale(t *testing.T) {
	for _, c := range []size{{3, 1000, 16, 2}, {20, 2000, 16, 2}} {
		for _, p := range simulate(t, c) {
			if p.served > 10*time.Second || p.conflicts > 2*p.writes {
				t.Errorf("%+v: %s", c, p)
			}
		}
	}
}

// TestLargeCluster simulates 100 brokers and 10,000 partitions, with different numbers of sets and
// different sizes of the API server. docs/operate/scale.md has the results.
func TestLargeCluster(t *testing.T) {
	if !*large {
		t.Skip("run with -large: it takes minutes")
	}
	for _, c := range []size{{100, 10_000, 16, 2}, {100, 10_000, 16, 8}, {100, 10_000, 64, 8}} {
		if failure := simulate(t, c)[1]; failure.served > 30*time.Second {
			t.Errorf("%+v: %s", c, failure)
		}
	}
}
