package rebalance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// model simulates a LogCluster: assignments become visible after a delay, replicas are copied over
// time, and reassignments complete.
type model struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	cluster *v1alpha1.LogCluster
	racks   map[int32]string
	run     Run
	all     []Partition
	late    []Change // assignments that the cache does not contain yet
	lag     bool
	cleaned int
	copied  int64 // bytes copied so far
}

const mib = 1 << 20

// newModel returns a LogCluster whose partitions have two replicas of 10 to 100 MiB.
func newModel(t *testing.T, seed uint64, brokers, partitions int) *model {
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 2)),
		now:     time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC),
		cluster: &v1alpha1.LogCluster{}}
	m.cluster.Spec.Brokers = int32(brokers)
	m.cluster.Spec.Storage.Size = resource.MustParse("1Ti")
	for index := range partitions {
		first := m.random.IntN(brokers)
		second := (first + 1 + m.random.IntN(brokers-1)) % brokers
		p := Partition{Topic: "orders", Index: int32(index), Leader: int32(first),
			Assigned: []int32{int32(first), int32(second)}, Bytes: int64(10+m.random.IntN(90)) * mib}
		p.Replicas = slices.Clone(p.Assigned)
		p.Sizes = map[int32]int64{int32(first): p.Bytes, int32(second): p.Bytes}
		m.all = append(m.all, p)
	}
	return m
}

func (m *model) input() Input {
	in := Input{Now: m.now, Cluster: m.cluster, Run: m.run, Racks: m.racks,
		Used: map[int32]int64{}, Partitions: slices.Clone(m.all), Held: map[int32]int{}}
	for i := range m.all {
		held := slices.Concat(m.all[i].Assigned, m.all[i].Replicas)
		slices.Sort(held)
		for _, id := range slices.Compact(held) {
			in.Held[id]++
		}
		for id, size := range m.all[i].Sizes {
			in.Used[id] += size
		}
	}
	return in
}

// step makes a decision, checks it, and advances the clock by 15 s.
func (m *model) step() Decision {
	m.t.Helper()
	d := Decide(m.input())
	m.run = d.Run
	for _, i := range d.Clean {
		m.cleaned++
		m.all[i].Reclaimable = 0
	}
	m.late = append(m.late, d.Assign...)
	m.check()
	m.now = m.now.Add(15 * time.Second)
	if m.lag = !m.lag && m.random.IntN(3) == 0; !m.lag { // the cache lags behind for up to 15 s
		for _, change := range m.late {
			m.all[change.Partition].Assigned = change.After
		}
		m.late = nil
	}
	for i := range m.all {
		m.advance(&m.all[i])
	}
	return d
}

// advance copies up to 40 MiB to the new replicas of a partition.
func (m *model) advance(p *Partition) {
	if !p.reassigning() {
		return
	}
	for _, id := range p.adding() {
		if !slices.Contains(p.Replicas, id) {
			p.Replicas = append(slices.Clone(p.Replicas), id)
		}
	}
	sizes := map[int32]int64{}
	complete := true
	for _, id := range p.Replicas {
		sizes[id] = p.Sizes[id]
		if left := p.Bytes - p.Sizes[id]; left > 0 {
			part := min(left, int64(m.random.IntN(40*mib)))
			sizes[id] += part
			m.copied += part
			complete = complete && part == left
		}
	}
	p.Sizes = sizes
	if complete {
		for id := range sizes {
			if !slices.Contains(p.Assigned, id) {
				delete(sizes, id)
			}
		}
		p.Replicas, p.Leader = slices.Clone(p.Assigned), p.Assigned[0]
	}
}

// check checks the limits of all reassignments, including those that are not visible yet.
func (m *model) check() {
	m.t.Helper()
	sends, receives := map[int32]int{}, map[int32]int{}
	for i := range m.all {
		p := m.all[i]
		for _, change := range m.late {
			if change.Partition == i {
				p.Assigned = change.After
			}
		}
		if p.reassigning() {
			for _, id := range p.adding() {
				sends[p.Leader]++
				receives[id]++
			}
		}
	}
	for id := range m.cluster.Spec.Brokers {
		if sends[id] > 2 || receives[id] > 2 {
			m.t.Fatalf("broker %d sends %d replicas and receives %d", id, sends[id], receives[id])
		}
	}
}

// until makes decisions until the run is in the given phase.
func (m *model) until(phase v1alpha1.RebalancePhase) Decision {
	m.t.Helper()
	for range 2000 {
		if d := m.step(); d.Run.Phase == phase {
			return d
		}
	}
	m.t.Fatalf("the run is %+v, want phase %s", m.run.RebalanceStatus, phase)
	return Decision{}
}

func (m *model) bytes(broker int32) (sum int64) {
	for i := range m.all {
		sum += m.all[i].Sizes[broker]
	}
	return sum
}

// settled checks that every broker is within 10 % of the mean of the brokers with replicas.
func (m *model) settled(without ...int32) {
	m.t.Helper()
	total, n := int64(0), m.cluster.Spec.Brokers-int32(len(without))
	for id := range m.cluster.Spec.Brokers {
		total += m.bytes(id)
	}
	for id := range m.cluster.Spec.Brokers {
		if got := m.bytes(id); slices.Contains(without, id) != (got == 0) {
			m.t.Errorf("broker %d has %d bytes", id, got)
		} else if got > 0 && (got > total/int64(n)*11/10 || got < total/int64(n)*9/10) {
			m.t.Errorf("broker %d has %d bytes, the mean is %d", id, got, total/int64(n))
		}
	}
}

// TestScalingBalancesOnce checks that adding brokers begins one run, that the run ends, and that no
// other run follows. A restart of the operator during the run, after which only the status remains,
// must not change this.
func TestScalingBalancesOnce(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newModel(t, seed, 3, 60)
			if m.step(); m.run.Phase != v1alpha1.RebalanceIdle || m.run.Brokers != 3 {
				t.Fatalf("at first the run is %+v", m.run.RebalanceStatus)
			}
			m.cluster.Spec.Brokers = 5
			for range 3 + m.random.IntN(10) {
				m.step()
			}
			if m.run.Phase != v1alpha1.RebalanceMoving || len(m.run.Moving) == 0 ||
				m.run.BytesTotal <= m.run.BytesDone {
				t.Fatalf("the run is %+v", m.run.RebalanceStatus)
			}
			if len(m.late) == 0 { // a new operator waits for the cache
				m.run = Run{RebalanceStatus: *m.run.DeepCopy()}
			}
			m.until(v1alpha1.RebalanceDone)
			m.settled()
			run := m.run.RebalanceStatus
			if run.Trigger != v1alpha1.TriggerOnScale || run.Brokers != 5 {
				t.Errorf("the run of trigger %s ended with %d brokers, want OnScale with 5",
					run.Trigger, run.Brokers)
			}
			if run.Moves != run.MovesDone || len(run.Moving) > 0 {
				t.Errorf("the run ended after %d of %d moves, and moves %v", run.MovesDone, run.Moves,
					run.Moving)
			}
			if run.CompletionTime == nil {
				t.Errorf("the run ended without a completion time: %+v", run)
			}
			if d := run.BytesDone - m.copied; d > m.copied/10 || d < -m.copied/10 {
				t.Errorf("the status says %d bytes, %d were copied", run.BytesDone, m.copied)
			}
			for range 20 {
				if d := m.step(); len(d.Assign) > 0 || d.Run.Phase != v1alpha1.RebalanceDone {
					t.Fatalf("after its end: %+v", d)
				}
			}
		})
	}
}

// TestDrainEmptiesABroker checks that all replicas leave a drained broker, whose id is neither the
// lowest nor the highest, and that the broker stays empty. Only its replicas must move to the other
// brokers.
func TestDrainEmptiesABroker(t *testing.T) {
	m := newModel(t, 7, 4, 60)
	m.step()
	held := m.bytes(1)
	m.cluster.Spec.Drain = []int32{1}
	d := m.until(v1alpha1.RebalanceDone)
	if m.bytes(1) != 0 || m.copied != held || d.Run.Trigger != v1alpha1.TriggerDrain {
		t.Errorf("broker 1 has %d bytes; %d of %d were copied; %+v", m.bytes(1), m.copied, held,
			d.Run.RebalanceStatus)
	}
	if d := m.step(); d.Drained.Remaining != 0 || d.Run.Phase != v1alpha1.RebalanceDone {
		t.Errorf("after the drain: %+v", d)
	}
	// After the broker has been removed from spec.drain, it is filled again on request.
	m.cluster.Spec.Drain = nil
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationRebalance: "1"}
	m.until(v1alpha1.RebalanceMoving)
	m.until(v1alpha1.RebalanceDone)
	m.settled()
}

// TestCancelTakesBackMoves checks that no move begins after a cancellation. Moves that have copied
// less than half of their bytes must be reverted; the others must be completed.
func TestCancelTakesBackMoves(t *testing.T) {
	for seed := range uint64(20) {
		m := newModel(t, seed, 3, 60)
		m.step()
		m.cluster.Spec.Brokers = 5
		m.cluster.Annotations = map[string]string{v1alpha1.AnnotationRebalance: "once"}
		for range 5 + m.random.IntN(5) {
			m.step()
		}
		in := m.input()
		delete(m.cluster.Annotations, v1alpha1.AnnotationRebalance)
		d := m.step()
		taken := map[int]bool{}
		for _, change := range d.Assign {
			taken[change.Partition] = true
			if p := in.Partitions[change.Partition]; !slices.Equal(change.After, p.origin()) {
				t.Errorf("seed %d: partition %d gets %v, it had %v", seed, p.Index, change.After,
					p.origin())
			}
		}
		for i := range in.Partitions {
			p := &in.Partitions[i]
			if half := 2*p.copied() >= p.Bytes; p.reassigning() && len(p.adding()) > 0 &&
				taken[i] == half {
				t.Errorf("seed %d: partition %d has %d of %d bytes, taken back: %v", seed, p.Index,
					p.copied(), p.Bytes, taken[i])
			}
		}
		m.until(v1alpha1.RebalanceCancelled)
		for range 10 {
			if d := m.step(); len(d.Assign) > 0 {
				t.Fatalf("seed %d: a move began after the cancel", seed)
			}
		}
		for i := range m.all {
			if len(m.all[i].Replicas) != 2 || m.all[i].reassigning() {
				t.Errorf("seed %d: partition %d has replicas %v", seed, i, m.all[i].Replicas)
			}
		}
	}
}
