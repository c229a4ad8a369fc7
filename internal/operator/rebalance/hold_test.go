package rebalance

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// cancelled returns a model whose run was cancelled. The annotation that cancelled it is still set.
func cancelled(t *testing.T) *model {
	m := newModel(t, 1, 3, 30)
	m.cluster.Namespace, m.cluster.Name = "kafka", "demo"
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationRebalance: "once"}
	m.all[0].Bytes *= 20 // makes moves necessary
	m.until(v1alpha1.RebalanceMoving)
	m.cluster.Annotations[v1alpha1.AnnotationRebalance] = v1alpha1.RebalanceCancel
	m.until(v1alpha1.RebalanceCancelled)
	if d := m.step(); d.Run.Message != "The run was cancelled. Completed moves remain in effect." {
		t.Fatalf("nothing is due, and the message is %q", d.Run.Message)
	}
	return m
}

const removeCancel = "kubectl annotate logcluster -n kafka demo heartwood.dev/rebalance-"

// TestAnnotationCancelIsNamedWhileARunIsDue checks that the message names the annotation while it
// prevents a run that is due. When the annotation is removed, new brokers must get replicas.
func TestAnnotationCancelIsNamedWhileARunIsDue(t *testing.T) {
	m := cancelled(t)
	m.cluster.Spec.Brokers = 5
	for range 3 {
		d := m.step()
		if len(d.Assign) > 0 || d.Run.Phase != v1alpha1.RebalanceCancelled ||
			strings.Count(d.Run.Message, removeCancel) != 1 {
			t.Fatalf("got %+v", d)
		}
	}
	m.cluster.Spec.Brokers = 3
	if d := m.step(); strings.Contains(d.Run.Message, "annotat") {
		t.Errorf("nothing is due any more, and the message is %q", d.Run.Message)
	}
	m.cluster.Spec.Brokers = 5
	m.step()
	delete(m.cluster.Annotations, v1alpha1.AnnotationRebalance)
	if d := m.until(v1alpha1.RebalanceDone); d.Run.Trigger != v1alpha1.TriggerOnScale ||
		strings.Contains(d.Run.Message, "annotat") {
		t.Errorf("the run is %+v", d.Run.RebalanceStatus)
	}
	if m.bytes(3) == 0 || m.bytes(4) == 0 {
		t.Errorf("the new brokers have %d and %d bytes", m.bytes(3), m.bytes(4))
	}
}

// TestHeldDrainNamesTheAnnotation checks that the message names the annotation that delays a drain,
// even while a broker is down or the LogCluster is paused.
func TestHeldDrainNamesTheAnnotation(t *testing.T) {
	m := cancelled(t)
	m.cluster.Spec.Drain = []int32{1}
	in := m.input()
	in.Obstacle = "Broker 2 is not up."
	for _, d := range []Decision{m.step(), Decide(in)} {
		if len(d.Assign) > 0 || !strings.Contains(d.Drained.Waits, removeCancel) ||
			!strings.Contains(d.Run.Message, removeCancel) {
			t.Errorf("got %+v", d)
		}
	}
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
	d := m.step()
	if remove := "kubectl annotate logcluster -n kafka demo heartwood.dev/paused-"; len(d.Assign) >
		0 || !strings.Contains(d.Drained.Waits, remove) ||
		strings.Contains(d.Drained.Waits, removeCancel) {
		t.Errorf("while paused: %+v", d)
	}
	m.cluster.Annotations = nil
	if d := m.until(v1alpha1.RebalanceDone); m.bytes(1) > 0 || d.Drained.Waits != "" {
		t.Errorf("broker 1 has %d bytes: %+v", m.bytes(1), d)
	}
}
