package reports

import (
	"math"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
)

// TestRatesSurviveChangesOfTheLeader checks that a partition keeps its rate when it cannot be
// measured. A partition that was never measured has no rate.
func TestRatesSurviveChangesOfTheLeader(t *testing.T) {
	now := time.Unix(1000, 0)
	round := func(rows ...report.Partition) *Cluster {
		now = now.Add(10 * time.Second)
		return &Cluster{At: now, Rows: map[string][]report.Partition{"a": rows}}
	}
	leader := func(broker, partition int32, produced int64) report.Partition {
		return report.Partition{Broker: broker, Partition: partition, Leader: true,
			ProducedBytes: produced}
	}
	rounds := []*Cluster{
		round(leader(0, 0, 1000), leader(0, 1, 5000), leader(0, 2, 5000)),
		round(leader(0, 0, 3000), leader(0, 1, 9000), leader(0, 2, 5000),
			report.Partition{Broker: 1, ProducedBytes: 10}), // row of a follower
		// a different leader, and a restarted leader
		round(leader(0, 0, 7000), leader(1, 1, 9), leader(0, 2, 100),
			leader(0, 3, 100)), // new partition
		round(leader(1, 1, 1009)), // partition 0 has no leader
	}
	var before *Cluster
	for _, now := range rounds {
		now.Rates = rates(before, now)
		before = now
	}
	for partition, want := range map[int32]float64{0: 300, 1: 250, 2: 0} {
		got, known := before.Rates[report.TopicPartition{Topic: "a", Partition: partition}]
		if !known || math.Abs(got.PerSecond-want) > 1e-6 {
			t.Errorf("partition %d: got %+v (%v), want %v", partition, got, known, want)
		}
	}
	if len(rounds[0].Rates) > 0 || len(before.Rates) != 3 {
		t.Errorf("got %v after the first round and %v after the last", rounds[0].Rates, before.Rates)
	}
	gone := &Cluster{At: now.Add(time.Second), Polled: 2, Responded: 1}
	if kept := rates(before, gone); len(kept) != 3 {
		t.Errorf("while a broker does not respond: %v", kept)
	}
	gone.Responded = 2
	if kept := rates(before, gone); len(kept) != 0 {
		t.Errorf("after the deletion of the topic: %v", kept)
	}
}
