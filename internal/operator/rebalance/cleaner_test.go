package rebalance

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// copies makes a decision, and returns the number of copies that begin.
func (m *model) copies() (n int, d Decision) {
	in := m.input()
	d = Decide(in)
	m.run = d.Run
	for _, c := range d.Assign {
		p := in.Partitions[c.Partition]
		p.Assigned = c.After
		m.all[c.Partition].Assigned = c.After
		if len(p.adding()) > 0 {
			n++
		} else {
			m.all[c.Partition].Replicas = slices.Clone(c.After)
		}
	}
	return n, d
}

// TestMoveWaitsForARunningPass checks that a copy does not begin while the cleaner is rewriting the
// replica on the broker that loses it. If the pass does not end, the copy begins after passWaitMax.
func TestMoveWaitsForARunningPass(t *testing.T) {
	for _, ends := range []bool{true, false} {
		m := scaled(t)
		for i := range m.all { // all brokers run passes, including the one that loses the replica
			m.all[i].Cleaning = m.all[i].Assigned
		}
		began := m.now
		for m.now.Sub(began) < passWaitMax {
			n, d := m.copies()
			if n > 0 || len(d.Clean) > 0 {
				t.Fatalf("after %v, %d copies begin: %+v", m.now.Sub(began), n, d)
			}
			if len(d.Run.Moving) == 0 && !strings.Contains(d.Run.Message, "cleans partition") {
				t.Fatalf("the run is %+v", d.Run.RebalanceStatus)
			}
			m.now = m.now.Add(10 * time.Minute)
			if ends && m.now.Sub(began) > time.Hour {
				break
			}
		}
		for i := range m.all {
			if ends {
				m.all[i].Cleaning = nil
			}
		}
		if n, d := m.copies(); n == 0 {
			t.Errorf("the passes have ended: %t; got %+v", ends, d)
		}
	}
}

// TestPassOfTheLeaderDelaysAMoveBriefly checks that a pass on the leader delays a move only
// briefly: the leader keeps its replica, so the move does not end the pass.
func TestPassOfTheLeaderDelaysAMoveBriefly(t *testing.T) {
	m := scaled(t)
	for i := range m.all {
		p := &m.all[i]
		p.Cleaning, p.Leader = []int32{9}, 9 // this broker loses no replica
	}
	if n, _ := m.copies(); n > 0 {
		t.Fatalf("%d copies begin at once", n)
	}
	m.now = m.now.Add(cleanerWaitMax)
	if n, d := m.copies(); n == 0 {
		t.Errorf("after %v: %+v", cleanerWaitMax, d)
	}
}
