package rebalance

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// fill sets the measured usage of the new brokers' disks.
func (m *model) fill(percent int32) {
	m.cluster.Status.Brokers = nil
	for _, id := range []int32{3, 4} {
		m.cluster.Status.Brokers = append(m.cluster.Status.Brokers, v1alpha1.BrokerStatus{ID: id,
			Volume: &v1alpha1.BrokerVolume{Pressure: "None", UsedPercent: percent, TotalBytes: 1 << 38}})
	}
}

// waits checks that the run moves nothing to the new brokers, and waits with the given message.
func (m *model) waits(message string) {
	m.t.Helper()
	m.until(v1alpha1.RebalanceWaiting)
	for range 5 {
		d := m.step()
		if len(d.Assign) > 0 || d.Run.Phase != v1alpha1.RebalanceWaiting {
			m.t.Fatalf("got assignments %v in phase %s, want a run that waits", d.Assign, d.Run.Phase)
		}
		if !strings.Contains(d.Run.Message, message) || d.Run.Brokers != 3 {
			m.t.Fatalf("got run %+v, want 3 brokers and %q", d.Run.RebalanceStatus, message)
		}
		if moved := m.bytes(3) + m.bytes(4); moved > 0 {
			m.t.Fatalf("the new brokers have %d bytes, want none", moved)
		}
	}
}

// TestRunThatFullDisksPreventWaits checks that a run that cannot proceed because of full disks
// waits and names the full brokers, and continues once they have space.
func TestRunThatFullDisksPreventWaits(t *testing.T) {
	m := scaled(t)
	m.fill(82)
	m.waits("Brokers [3 4] get no replicas for balance, because their disks")
	m.fill(20)
	if d := m.until(v1alpha1.RebalanceDone); d.Run.Brokers != 5 ||
		!strings.Contains(d.Run.Message, "as balanced as the partitions allow") {
		t.Errorf("the run is %+v", d.Run.RebalanceStatus)
	}
	m.settled()
}

// TestWaitingRunDrainsAnyway checks that a run that is waiting for space does not prevent a drain
// for which the user has set the annotation.
func TestWaitingRunDrainsAnyway(t *testing.T) {
	m := scaled(t)
	m.fill(90)
	m.waits("Brokers [3 4] get no replicas")
	m.racks = map[int32]string{0: "a", 1: "b", 2: "a", 3: "a", 4: "a"}
	m.cluster.Spec.Drain = []int32{1}
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationDrainAnyway: "true"}
	for range 200 {
		m.step()
	}
	if m.bytes(1) > 0 || m.run.Phase != v1alpha1.RebalanceWaiting {
		t.Errorf("broker 1 has %d bytes, the run is %+v", m.bytes(1), m.run.RebalanceStatus)
	}
}

// TestRunNamesCordonedBrokers checks that a run waits while new brokers are cordoned, but ends if
// only cordoned old brokers prevent further moves.
func TestRunNamesCordonedBrokers(t *testing.T) {
	m := scaled(t)
	m.cluster.Spec.Cordoned = []int32{3, 4}
	m.waits("Brokers [3 4] get no replicas for balance, because they are in spec.cordoned.")
	m.cluster.Spec.Cordoned = []int32{3}
	m.until(v1alpha1.RebalanceMoving)
	if m.until(v1alpha1.RebalanceWaiting); m.bytes(4) == 0 {
		t.Errorf("broker 4 is empty: %+v", m.run.RebalanceStatus)
	}
	m.cluster.Spec.Cordoned = nil
	m.until(v1alpha1.RebalanceDone)
	m.settled()

	m.cluster.Spec.Drain = []int32{1}
	m.until(v1alpha1.RebalanceMoving)
	m.until(v1alpha1.RebalanceDone)
	m.cluster.Spec.Drain, m.cluster.Spec.Cordoned = nil, []int32{1}
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationRebalance: "once"}
	m.step()
	if d := m.until(v1alpha1.RebalanceDone); !strings.Contains(d.Run.Message, "not balanced. "+
		"Brokers [1] get no replicas for balance, because they are in spec.cordoned.") {
		t.Errorf("got %+v", d)
	}
}
