package rebalance

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestETAIgnoresWaits checks that the estimated end depends only on the speed while bytes are being
// copied, and that there is no estimate while none are.
func TestETAIgnoresWaits(t *testing.T) {
	m := newModel(t, 1, 3, 400)
	m.step()
	m.cluster.Spec.Brokers = 5
	m.cluster.Annotations = map[string]string{}
	estimated := func() time.Duration {
		t.Helper()
		for range 12 {
			m.step()
		}
		if m.run.EstimatedCompletionTime == nil || m.run.Phase != v1alpha1.RebalanceMoving {
			t.Fatalf("the run is %+v", m.run.RebalanceStatus)
		}
		return m.run.EstimatedCompletionTime.Sub(m.now)
	}
	before := estimated()
	m.cluster.Annotations[v1alpha1.AnnotationPaused] = "true"
	for range 240 { // 1 hour; the moves in progress are completed at its start
		if m.step(); len(m.run.Moving) == 0 && m.run.EstimatedCompletionTime != nil {
			t.Fatalf("nothing moves, and the run is %+v", m.run.RebalanceStatus)
		}
	}
	delete(m.cluster.Annotations, v1alpha1.AnnotationPaused)
	after := estimated()
	if after > before*3/2 {
		t.Errorf("after the pause %v are estimated, before it %v", after, before)
	}
	began := m.now
	m.until(v1alpha1.RebalanceDone)
	if took := m.now.Sub(began); after < took/2 || after > 2*took {
		t.Errorf("%v were estimated, the rest took %v", after, took)
	}
}

// TestETAIsAbsentIfItIsFar checks that there is no estimate after only the first few bytes of a
// run.
func TestETAIsAbsentIfItIsFar(t *testing.T) {
	m := newModel(t, 1, 3, 400)
	m.step()
	m.cluster.Spec.Brokers = 5
	m.until(v1alpha1.RebalanceMoving)
	for m.run.EstimatedCompletionTime == nil {
		m.step()
	}
	in := m.input()
	in.Run.Speed.Rate.PerSecond = 1e-3
	if d := Decide(in); d.Run.EstimatedCompletionTime != nil || len(d.Run.Moving) == 0 {
		t.Errorf("the run is %+v", d.Run.RebalanceStatus)
	}
}

// TestETAIsAbsentWhileMovesStall checks that there is no estimate while the replicas being copied
// receive no bytes.
func TestETAIsAbsentWhileMovesStall(t *testing.T) {
	m := newModel(t, 1, 3, 400)
	m.step()
	m.cluster.Spec.Brokers = 5
	for range 12 {
		m.step()
	}
	in := m.input()
	for range 4 {
		in.Now = in.Now.Add(interval)
		d := Decide(in)
		in.Run = d.Run
	}
	if in.Run.EstimatedCompletionTime != nil || len(in.Run.Moving) == 0 {
		t.Errorf("the run is %+v", in.Run.RebalanceStatus)
	}
}
