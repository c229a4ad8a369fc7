package rebalance

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// blockedDrain returns a model in which broker 1 cannot be drained, because every other partition
// has replicas on all brokers.
func blockedDrain(t *testing.T) *model {
	m := newModel(t, 1, 3, 10)
	m.step()
	for i := 0; i < len(m.all); i += 2 {
		p := &m.all[i]
		p.Assigned, p.Leader = []int32{0, 1, 2}, 0
		p.Replicas = slices.Clone(p.Assigned)
		p.Sizes = map[int32]int64{0: p.Bytes, 1: p.Bytes, 2: p.Bytes}
	}
	m.cluster.Spec.Drain = []int32{1}
	return m
}

// TestNoRunCarriesOutABlockedDrain checks that runs with other triggers treat a broker whose drain
// is blocked as cordoned.
func TestNoRunCarriesOutABlockedDrain(t *testing.T) {
	m := newModel(t, 1, 3, 13)
	for i := range m.all { // balanced: 4 partitions on each broker, and one on all of them
		p := &m.all[i]
		p.Assigned, p.Bytes = []int32{int32(i % 3)}, 10*mib
		if i == 12 {
			p.Assigned = []int32{0, 1, 2}
		}
		p.Replicas, p.Leader, p.Sizes = slices.Clone(p.Assigned), p.Assigned[0], map[int32]int64{}
		for _, id := range p.Assigned {
			p.Sizes[id] = p.Bytes
		}
	}
	m.cluster.Spec.Drain = []int32{1}
	held := m.input().Held[1]
	m.until(v1alpha1.RebalanceBlocked)
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationRebalance: "a"}
	for range 100 {
		for _, c := range m.step().Assign {
			if slices.Contains(c.After, 1) && !slices.Contains(c.Before, 1) {
				t.Errorf("broker 1 gets a replica: %+v", c)
			}
		}
	}
	if now := m.input().Held[1]; now != held || m.run.Request != "a" {
		t.Errorf("%d of %d replicas are left, the run is %+v", now, held, m.run.RebalanceStatus)
	}
	// While the broker is down, a run must neither copy to it nor make it a leader.
	m.cluster.Annotations[v1alpha1.AnnotationRebalance] = "b"
	in := m.input()
	in.Down = map[int32]bool{1: true}
	d := Decide(in)
	if len(d.Assign) > 0 || d.Run.Phase != v1alpha1.RebalanceWaiting ||
		!strings.Contains(d.Run.Message, "Broker 1 is not up") {
		t.Errorf("with broker 1 down: %+v", d)
	}
}

// TestBlockedDrainStaysBlocked checks that a blocked drain stays blocked, with the same message, if
// an obstacle prevents planning. Once the drain is withdrawn, the phase must be Idle.
func TestBlockedDrainStaysBlocked(t *testing.T) {
	m := blockedDrain(t)
	message := m.until(v1alpha1.RebalanceBlocked).Drained.Obstacle
	in := m.input()
	in.Obstacle = "Not all brokers have reported."
	d := Decide(in)
	if d.Run.Phase != v1alpha1.RebalanceBlocked || d.Run.StartTime != nil ||
		d.Drained.Obstacle != message {
		t.Errorf("with an obstacle: %+v", d)
	}
	in.Run.Phase = v1alpha1.RebalanceDone
	if d := Decide(in); d.Run.Phase != v1alpha1.RebalanceDone || d.Drained.Waits != in.Obstacle {
		t.Errorf("a drain began with an obstacle: %+v", d)
	}
	m.cluster.Spec.Drain = nil
	if d := m.step(); d.Run.Phase != v1alpha1.RebalanceIdle || d.Run.Message != "" {
		t.Errorf("after the withdrawal: %+v", d.Run.RebalanceStatus)
	}
}

// TestDrainEndsWhenNothingRemains checks that the run for a drain waits for a reassignment in
// progress, and for an entry that cannot be parsed, and that no second run begins.
func TestDrainEndsWhenNothingRemains(t *testing.T) {
	m := newModel(t, 1, 4, 10)
	m.step()
	p := &m.all[0]
	p.Assigned, p.Replicas, p.Leader = []int32{0, 3}, []int32{0, 1, 3}, 0
	p.Sizes = map[int32]int64{0: p.Bytes, 1: p.Bytes, 3: 0}
	stuck := *p
	m.cluster.Spec.Drain = []int32{1}
	var d Decision
	starts := map[time.Time]bool{}
	for range 100 {
		d = m.step()
		m.all[0] = stuck
		m.all[0].Sizes = maps.Clone(stuck.Sizes)
		starts[d.Run.StartTime.Time] = true
	}
	if d.Run.Phase != v1alpha1.RebalanceWaiting || d.Drained.Remaining != 1 || len(starts) != 1 ||
		!strings.Contains(d.Run.Message, "reassignments are in progress") {
		t.Errorf("%d runs began, the last is %+v", len(starts), d)
	}
	in := m.input()
	delete(in.Held, 1)
	in.Invalid = []string{"orders/0"}
	if d := Decide(in); d.Run.Phase != v1alpha1.RebalanceWaiting || d.Drained.Remaining != 1 ||
		!strings.Contains(d.Run.Message, "correct the entry") {
		t.Errorf("with an invalid entry: %+v", d)
	}
	m.until(v1alpha1.RebalanceDone) // the reassignment continues
}

// TestDeadBrokerIsDrained checks that a broker that is down and does not report can be drained. Its
// replicas are copied from their leaders.
func TestDeadBrokerIsDrained(t *testing.T) {
	m := newModel(t, 5, 4, 20)
	m.step()
	m.cluster.Spec.Drain = []int32{1}
	for i := range m.all {
		p := &m.all[i]
		if p.Leader == 1 { // the operator has elected another leader
			p.Leader = p.Assigned[1]
		}
		delete(p.Sizes, 1)
	}
	for range 200 {
		in := m.input()
		in.Down = map[int32]bool{1: true}
		d := Decide(in)
		for _, c := range d.Assign {
			m.all[c.Partition].Assigned = c.After
		}
		m.run, m.now = d.Run, m.now.Add(15*time.Second)
		for i := range m.all {
			m.advance(&m.all[i])
		}
	}
	if left := m.input().Held[1]; left > 0 || m.run.Phase != v1alpha1.RebalanceDone {
		t.Errorf("%d replicas are left, the run is %+v", left, m.run.RebalanceStatus)
	}
}

// TestFullBrokersGetNoReplicas checks that no replicas move to brokers that reject records, or to
// brokers whose disks are filled by other files, such as the records of deleted topics.
func TestFullBrokersGetNoReplicas(t *testing.T) {
	for name, fill := range map[string]func(m *model, in *Input, id int32){
		"pressure": func(m *model, _ *Input, id int32) {
			m.cluster.Status.Brokers = append(m.cluster.Status.Brokers, v1alpha1.BrokerStatus{ID: id,
				Volume: &v1alpha1.BrokerVolume{Pressure: v1alpha1.PressureReject}})
		},
		"measured": func(m *model, _ *Input, id int32) {
			m.cluster.Status.Brokers = append(m.cluster.Status.Brokers, v1alpha1.BrokerStatus{ID: id,
				Volume: &v1alpha1.BrokerVolume{Pressure: "None", UsedPercent: 85,
					TotalBytes: 1 << 38}})
		},
		"retained": func(_ *model, in *Input, id int32) { in.Used[id] += 850 << 30 },
	} {
		t.Run(name, func(t *testing.T) {
			m := scaled(t)
			in := m.input()
			fill(m, &in, 3)
			d := Decide(in)
			if len(d.Run.Moving) == 0 {
				t.Errorf("the other new broker gets nothing: %+v", d)
			}
			for _, c := range d.Assign {
				if slices.Contains(c.After, 3) {
					t.Errorf("broker 3 gets a replica: %+v", c)
				}
			}
			m = newModel(t, 1, 4, 30)
			m.step()
			m.cluster.Spec.Drain = []int32{1}
			in = m.input()
			for _, id := range []int32{0, 2, 3} {
				fill(m, &in, id)
			}
			if d := Decide(in); d.Run.Phase != v1alpha1.RebalanceBlocked || len(d.Assign) > 0 {
				t.Errorf("the drain is %+v", d)
			}
		})
	}
}

// TestCancelWithoutSizes checks that, if sizes may be unknown, a cancelled run reverts only moves
// to brokers that are down. While the LogCluster is paused, it must revert no move.
func TestCancelWithoutSizes(t *testing.T) {
	m := scaled(t)
	for range 3 {
		m.step()
	}
	for len(m.late) > 0 {
		m.step()
	}
	in := m.input()
	to4 := 0
	for _, key := range in.Run.Moving {
		p := &in.Partitions[newDecider(in).byKey[key]]
		if slices.Contains(p.adding(), 4) {
			to4++
		}
	}
	for i := range in.Partitions {
		in.Partitions[i].Sizes = nil
	}
	in.Obstacle = "Not all brokers have reported."
	in.Silent = map[int32]bool{0: true, 1: true, 2: true, 3: true, 4: true}
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationRebalance: v1alpha1.RebalanceCancel}
	d := Decide(in)
	if len(d.Assign) > 0 || d.Run.Phase != v1alpha1.RebalanceCancelling || len(d.Run.Moving) == 0 {
		t.Fatalf("without sizes: %+v", d)
	}
	in.Run, in.Down, in.Obstacle = d.Run, map[int32]bool{4: true}, "Broker 4 is not up."
	m.cluster.Annotations[v1alpha1.AnnotationPaused] = "true"
	if d := Decide(in); len(d.Assign) > 0 || d.Run.Phase != v1alpha1.RebalanceCancelling {
		t.Fatalf("while paused: %+v", d)
	}
	delete(m.cluster.Annotations, v1alpha1.AnnotationPaused)
	if d = Decide(in); to4 == 0 || len(d.Assign) != to4 {
		t.Fatalf("%d of %d moves to broker 4 are taken back: %+v", len(d.Assign), to4, d)
	}
	in = m.input()
	in.Run = d.Run
	for _, c := range d.Assign {
		in.Partitions[c.Partition].Assigned = c.After
	}
	for i := range in.Partitions {
		if p := &in.Partitions[i]; p.reassigning() {
			p.Sizes = map[int32]int64{p.Leader: p.Bytes}
		}
	}
	if d = Decide(in); len(d.Run.Moving) > 0 || d.Run.Phase != v1alpha1.RebalanceCancelled {
		t.Errorf("when the sizes are known: %+v", d)
	}
}

// TestCancelWhileAnotherBrokerIsDown checks that a cancelled run reverts moves between brokers that
// are up and have reported. The other moves must wait, because their progress is unknown.
func TestCancelWhileAnotherBrokerIsDown(t *testing.T) {
	for name, missing := range map[string]func(in *Input){
		"down": func(in *Input) {
			in.Down, in.Obstacle = map[int32]bool{0: true}, "Broker 0 is not up."
		},
		"silent": func(in *Input) {
			in.Silent, in.Obstacle = map[int32]bool{0: true}, "Not all brokers have reported."
		},
	} {
		m := scaled(t)
		m.step()
		for len(m.late) > 0 {
			m.step()
		}
		in := m.input()
		m.cluster.Annotations = map[string]string{
			v1alpha1.AnnotationRebalance: v1alpha1.RebalanceCancel}
		missing(&in)
		taken, waiting := map[int]bool{}, 0
		d := Decide(in)
		for _, c := range d.Assign {
			taken[c.Partition] = true
		}
		for i := range in.Partitions {
			p := &in.Partitions[i]
			if p.reassigning() && len(p.adding()) > 0 {
				if p.Leader == 0 {
					waiting++
				}
				if less := 2*p.copied() < p.Bytes; taken[i] != (less && p.Leader != 0) {
					t.Errorf("%s: partition %d with leader %d has %d of %d bytes, taken back: %t", name, i,
						p.Leader, p.copied(), p.Bytes, taken[i])
				}
			}
		}
		if len(taken) == 0 || waiting == 0 {
			t.Errorf("%s: %d moves were taken back, %d wait", name, len(taken), waiting)
		}
	}
}
