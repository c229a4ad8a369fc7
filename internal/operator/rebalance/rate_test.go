package rebalance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestRateIsSmoothed(t *testing.T) {
	var r Rate
	for range 4 {
		r = r.Add(1500, 15*time.Second)
	}
	if math.Abs(r.PerSecond-100) > 1e-6 {
		t.Errorf("a constant rate of 100 is %v", r.PerSecond)
	}
	for range 16 {
		r = r.Add(1500, 15*time.Second)
	}
	if burst := r.Add(15000, 15*time.Second); burst.PerSecond > 150 {
		t.Errorf("a burst of 15 s raises it from 100 to %v", burst.PerSecond)
	}
	for range 80 {
		r = r.Add(3000, 15*time.Second)
	}
	if math.Abs(r.PerSecond-200) > 5 {
		t.Errorf("20 minutes after it has changed to 200 it is %v", r.PerSecond)
	}
	if long := (Rate{}).Add(1<<20, time.Hour).Add(1<<20, time.Hour); long.Measured > rateWindow ||
		math.Abs(long.PerSecond-(1<<20)/3600.0) > 1e-6 {
		t.Errorf("after long measurements: %+v", long)
	}
}

// TestLeadersSettle checks that leaders stop changing some time after new brokers have been filled,
// with a constant or a noisy load. The rate of a partition cannot be measured in the round in which
// its leader changes.
func TestLeadersSettle(t *testing.T) {
	for _, noise := range []float64{0, 0.3} {
		for _, policy := range []v1alpha1.RebalancePolicy{v1alpha1.RebalanceOnScale,
			v1alpha1.RebalanceContinuous} {
			t.Run(fmt.Sprint(policy, noise), func(t *testing.T) { leadersSettle(t, noise, policy) })
		}
	}
}

func leadersSettle(t *testing.T, noise float64, policy v1alpha1.RebalancePolicy) {
	m, random := newModel(t, 3, 3, 90), rand.New(rand.NewPCG(9, 9))
	rates, load := make([]Rate, len(m.all)), make([]float64, len(m.all))
	leaders := make([]int32, len(m.all))
	for i := range m.all {
		load[i], leaders[i] = float64((200+random.IntN(800))<<10), m.all[i].Leader
	}
	m.step()
	m.cluster.Spec.Rebalance = &v1alpha1.Rebalance{Policy: policy}
	m.cluster.Spec.Brokers = 5
	changes, late := map[int]int{}, 0
	for round := range 2 * 240 { // two hours
		for i := range m.all {
			p := &m.all[i]
			if p.Leader == leaders[i] {
				now := load[i] * (1 + noise*(2*random.Float64()-1))
				rates[i] = rates[i].Add(int64(now*15), 15*time.Second)
			}
			leaders[i], p.Rate = p.Leader, int64(rates[i].PerSecond)
			if rates[i].Measured == 0 {
				p.Rate = -1
			}
		}
		for _, c := range m.step().Assign {
			before, after := slices.Sorted(slices.Values(c.Before)), slices.Sorted(slices.Values(c.After))
			if slices.Equal(before, after) {
				if changes[c.Partition]++; round >= 240 {
					late++
				}
			}
		}
	}
	total := 0 // with policy Continuous and a noisy load, at most a few changes follow
	for i, n := range changes {
		if total += n; n > 2 {
			t.Errorf("the leader of partition %d was changed %d times", i, n)
		}
	}
	if total == 0 || total > 60 || late > 2 || m.run.Phase != v1alpha1.RebalanceDone {
		t.Errorf("%d leaders were changed, %d of them in the second hour; the run is %+v", total,
			late, m.run.RebalanceStatus)
	}
}

// TestUnknownRateIsNotZero checks that rates are not balanced while any rate is unknown.
func TestUnknownRateIsNotZero(t *testing.T) {
	m := newModel(t, 1, 3, 30)
	for i := range m.all {
		m.all[i].Rate = 1 << 20
	}
	m.all[0].Rate = -1
	d := newDecider(m.input())
	for _, p := range d.cluster().Partitions {
		if p.Rate != 0 {
			t.Fatalf("the planner gets rate %d", p.Rate)
		}
	}
	m.all[0].Leader = -1 // no producer can write to it
	d = newDecider(m.input())
	if rate := d.cluster().Partitions[1].Rate; rate != 1<<10 {
		t.Errorf("the planner gets rate %d", rate)
	}
}

// TestLeadersChangeSlowly checks that at most leadersMax preferred leaders change per minute.
func TestLeadersChangeSlowly(t *testing.T) {
	m := newModel(t, 1, 3, 400)
	for i := range m.all { // broker 0 leads all partitions of which it has a replica
		if p := &m.all[i]; slices.Contains(p.Assigned, 0) && p.Assigned[0] != 0 {
			slices.Reverse(p.Assigned)
			p.Replicas, p.Leader = slices.Clone(p.Assigned), 0
		}
	}
	m.cluster.Annotations = map[string]string{v1alpha1.AnnotationRebalance: "now"}
	var perRound []int
	for range 40 {
		led := 0
		for _, c := range m.step().Assign {
			if c.Before[0] != c.After[0] && slices.Contains(c.Before, c.After[0]) {
				led++
			}
		}
		perRound = append(perRound, led)
	}
	total := 0
	for i := range perRound {
		total += perRound[i]
		minute := 0
		for _, n := range perRound[i:min(len(perRound), i+4)] {
			minute += n
		}
		if minute > leadersMax {
			t.Errorf("%d leaders were changed within a minute", minute)
		}
	}
	if total <= leadersMax {
		t.Errorf("only %d leaders were changed", total)
	}
}
