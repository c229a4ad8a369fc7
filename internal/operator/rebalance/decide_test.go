package rebalance

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// scaled returns a model with two new brokers. No run has begun.
func scaled(t *testing.T) *model {
	m := newModel(t, 1, 3, 30)
	m.step()
	m.cluster.Spec.Brokers = 5
	return m
}

func TestNoMoveBeginsWhileSomethingPreventsIt(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(m *model, in *Input)
		message string
	}{
		"a broker is down": {func(_ *model, in *Input) { in.Obstacle = "Broker 4 is down." },
			"Broker 4 is down."},
		"the window is closed": {func(m *model, _ *Input) {
			m.cluster.Spec.Rebalance = &v1alpha1.Rebalance{
				Window: &v1alpha1.Window{Start: "13:30", End: "14:00"}}
		}, "begins in 1h29m"},
	} {
		m := scaled(t)
		in := m.input()
		test.change(m, &in)
		d := Decide(in)
		if len(d.Assign) > 0 || d.Run.Phase != v1alpha1.RebalanceWaiting ||
			!strings.Contains(d.Run.Message, test.message) || d.Again == 0 {
			t.Errorf("%s: got %+v", name, d)
		}
	}
	m := scaled(t)
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
	if d := Decide(m.input()); len(d.Assign) > 0 || d.Run.Phase != v1alpha1.RebalanceIdle {
		t.Errorf("paused: got %+v", d)
	}
}

func TestPolicyManualNeedsARequest(t *testing.T) {
	m := scaled(t)
	m.cluster.Spec.Rebalance = &v1alpha1.Rebalance{Policy: v1alpha1.RebalanceManual}
	if d := m.step(); len(d.Assign) > 0 {
		t.Fatalf("without a request: %+v", d)
	}
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationRebalance: "a"}
	if d := m.step(); len(d.Assign) == 0 || d.Run.Trigger != v1alpha1.TriggerManual {
		t.Fatalf("with a request: %+v", d)
	}
	m.until(v1alpha1.RebalanceDone)
	m.settled()
	copied := m.copied
	for range 10 {
		m.step()
	}
	if m.copied != copied || m.run.Request != "a" {
		t.Errorf("the same value has started another run: %+v", m.run.RebalanceStatus)
	}
}

func TestPolicyContinuousChecksRarely(t *testing.T) {
	m := scaled(t)
	m.cluster.Spec.Rebalance = &v1alpha1.Rebalance{Policy: v1alpha1.RebalanceContinuous}
	m.until(v1alpha1.RebalanceDone)
	for i := range m.all { // the replicas on broker 0 grow
		if size := m.all[i].Sizes[0]; size > 0 {
			m.all[i].Bytes *= 2
			for id := range m.all[i].Sizes {
				m.all[i].Sizes[id] *= 2
			}
		}
	}
	began := m.now
	m.until(v1alpha1.RebalanceMoving)
	if waited := m.now.Sub(began); waited > checkInterval+time.Minute {
		t.Errorf("the run began after %v", waited)
	}
	m.until(v1alpha1.RebalanceDone)
	m.settled()
	if m.run.Trigger != v1alpha1.TriggerContinuous {
		t.Errorf("the run is %+v", m.run.RebalanceStatus)
	}
}

// TestBlockedDrainMovesNothing checks that a drain that would fill disks too far is blocked, and
// that the condition states the reason. With the annotation, the drain must begin.
func TestBlockedDrainMovesNothing(t *testing.T) {
	m := newModel(t, 3, 3, 30)
	need := int64(0) // required bytes on each of the two other brokers
	for i := range m.all {
		need += m.all[i].Bytes
	}
	m.cluster.Spec.Storage.Size = *resource.NewQuantity(need*100/86, resource.BinarySI)
	m.cluster.Spec.Drain = []int32{0}
	d := m.step()
	if len(d.Assign) > 0 || d.Run.Phase != v1alpha1.RebalanceBlocked {
		t.Fatalf("got assignments %v in phase %s, want a blocked run", d.Assign, d.Run.Phase)
	}
	if d.Again == 0 {
		t.Fatalf("got %+v, want another decision later", d)
	}
	if !strings.Contains(d.Drained.Obstacle, "more than 80 %") || d.Drained.Remaining == 0 {
		t.Fatalf("got %+v, want partitions that remain, and why", d.Drained)
	}
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationDrainAnyway: "true"}
	m.until(v1alpha1.RebalanceDone)
	if m.bytes(0) != 0 {
		t.Errorf("broker 0 has %d bytes", m.bytes(0))
	}
	// Even with the annotation, no disk is filled so far that its broker rejects records.
	m = newModel(t, 3, 3, 30)
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationDrainAnyway: "true"}
	m.cluster.Spec.Storage.Size = *resource.NewQuantity(need*100/95, resource.BinarySI)
	m.cluster.Spec.Drain = []int32{0}
	if d := m.step(); len(d.Assign) > 0 || !strings.Contains(d.Drained.Obstacle, "91 %") ||
		strings.Contains(d.Drained.Obstacle, v1alpha1.AnnotationDrainAnyway) {
		t.Errorf("got %+v", d)
	}
}

// TestGarbageIsCleanedBeforeItMoves checks that a partition with much garbage is cleaned before it
// moves, and that it moves even if the cleaner never cleans it.
func TestGarbageIsCleanedBeforeItMoves(t *testing.T) {
	for _, cleans := range []bool{true, false} {
		m := scaled(t)
		for i := range m.all {
			m.all[i].Reclaimable = m.all[i].Bytes / 2
		}
		d := Decide(m.input())
		if len(d.Clean) == 0 || len(d.Clean) > 4*5 {
			t.Fatalf("%d partitions are cleaned: %+v", len(d.Clean), d)
		}
		for _, change := range d.Assign { // only leaders can change
			p := &m.all[change.Partition]
			p.Assigned = change.After
			if len(p.adding()) > 0 {
				t.Errorf("partition %d moves with its garbage", p.Index)
			}
		}
		m.run = d.Run
		garbage := m.all[d.Clean[0]].Reclaimable
		began := m.now
		for range 200 {
			m.step()
			if !cleans { // the cleaner has not removed the garbage
				for i := range m.all {
					m.all[i].Reclaimable = m.all[i].Bytes / 2
				}
			}
		}
		m.until(v1alpha1.RebalanceDone)
		if garbage == 0 || cleans && m.cleaned == 0 ||
			!cleans && m.now.Sub(began) < cleanerWaitMax {
			t.Errorf("cleans=%v: %d partitions were cleaned, %v passed", cleans, m.cleaned,
				m.now.Sub(began))
		}
	}
}

// TestPolicyManualCancelsARun checks that policy Manual cancels a run that no user has requested,
// even if the annotation has the value of an earlier run. If a user requests a run while this run
// is in progress, it must continue.
func TestPolicyManualCancelsARun(t *testing.T) {
	for _, requested := range []bool{false, true} {
		m := newModel(t, 5, 3, 60)
		m.cluster.Annotations = map[string]string{v1alpha1.AnnotationRebalance: "earlier"}
		m.until(v1alpha1.RebalanceDone)
		m.cluster.Spec.Brokers = 5
		m.until(v1alpha1.RebalanceMoving)
		if requested {
			m.cluster.Annotations[v1alpha1.AnnotationRebalance] = "now"
			m.step()
		}
		m.cluster.Spec.Rebalance = &v1alpha1.Rebalance{Policy: v1alpha1.RebalanceManual}
		if requested {
			m.until(v1alpha1.RebalanceDone)
			m.settled()
		} else {
			m.until(v1alpha1.RebalanceCancelled)
		}
	}
}
