package rebalance

import (
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// crowded returns the number of partitions that have two replicas in one rack.
func (m *model) crowded() (n int) {
	for i := range m.all {
		racks := map[string]bool{}
		for _, id := range m.all[i].Assigned {
			racks[m.racks[id]] = true
		}
		if len(racks) < len(m.all[i].Assigned) {
			n++
		}
	}
	return n
}

// racked returns a model with 4 brokers in racks a, b, a and b. Each partition has a replica in
// each rack.
func racked(t *testing.T) *model {
	m := newModel(t, 1, 4, 40)
	m.racks = map[int32]string{0: "a", 1: "b", 2: "a", 3: "b", 4: "a", 5: "b"}
	for i := range m.all {
		p := &m.all[i]
		p.Assigned = []int32{int32(i % 4), int32((i + 1) % 4)}
		p.Replicas, p.Leader = slices.Clone(p.Assigned), p.Assigned[0]
		p.Sizes = map[int32]int64{p.Assigned[0]: p.Bytes, p.Assigned[1]: p.Bytes}
	}
	m.step()
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationDrainAnyway: "true"}
	return m
}

// TestDrainAnywayKeepsTheLimitsOfOtherMoves checks that the annotation affects neither runs without
// a drain nor moves of replicas that are not blocked.
func TestDrainAnywayKeepsTheLimitsOfOtherMoves(t *testing.T) {
	m := racked(t)
	m.cluster.Spec.Brokers = 6
	m.until(v1alpha1.RebalanceDone)
	m.settled()
	if n := m.crowded(); n > 0 || m.run.Trigger != v1alpha1.TriggerOnScale {
		t.Errorf("%d partitions have two replicas in one rack after %+v", n, m.run.RebalanceStatus)
	}
	m = racked(t)
	m.cluster.Spec.Drain = []int32{1}
	m.until(v1alpha1.RebalanceDone)
	if n := m.crowded(); n > 0 || m.bytes(1) > 0 {
		t.Errorf("%d partitions have two replicas in one rack, broker 1 has %d bytes", n, m.bytes(1))
	}
}

// TestDrainOfTheOnlyBrokerOfARackIsBlocked checks that the drain of the only broker of a rack is
// blocked, because the replicas would have to share racks, which requires consent.
func TestDrainOfTheOnlyBrokerOfARackIsBlocked(t *testing.T) {
	m := newModel(t, 1, 4, 20)
	m.racks = map[int32]string{0: "a", 1: "b", 2: "c", 3: "a"}
	for i := range m.all {
		p := &m.all[i]
		p.Assigned, p.Leader = []int32{0, 1, 2}, 0
		p.Replicas = slices.Clone(p.Assigned)
		p.Sizes = map[int32]int64{0: p.Bytes, 1: p.Bytes, 2: p.Bytes}
	}
	m.cluster.Spec.Drain = []int32{2}
	d := m.until(v1alpha1.RebalanceBlocked)
	if m.copied > 0 || !strings.Contains(d.Drained.Obstacle, "would share a rack") ||
		!strings.Contains(d.Drained.Obstacle, v1alpha1.AnnotationDrainAnyway) {
		t.Errorf("%d bytes are copied: %+v", m.copied, d)
	}
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationDrainAnyway: "true"}
	m.until(v1alpha1.RebalanceDone)
	if m.bytes(2) > 0 {
		t.Errorf("broker 2 has %d bytes", m.bytes(2))
	}
}

// TestDrainAnywayMovesBlockedReplicas checks that, with the annotation, replicas on a drained
// broker move to the other rack if the only other broker in their rack is cordoned. Without the
// annotation, the drain is blocked.
func TestDrainAnywayMovesBlockedReplicas(t *testing.T) {
	m := racked(t)
	m.cluster.Spec.Drain, m.cluster.Spec.Cordoned = []int32{1}, []int32{3}
	anyway := m.cluster.Annotations
	m.cluster.Annotations = nil
	m.until(v1alpha1.RebalanceBlocked)
	m.cluster.Annotations = anyway
	m.until(v1alpha1.RebalanceDone)
	if m.bytes(1) > 0 || m.crowded() == 0 {
		t.Errorf("broker 1 has %d bytes, %d partitions have two replicas in one rack", m.bytes(1),
			m.crowded())
	}
}
