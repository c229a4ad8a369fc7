package election

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

func TestOutageLastsUntilTheNextLeaderServes(t *testing.T) {
	entry := func(leader int32, serving bool) partitionset.Entry {
		return partitionset.Entry{State: &partitionset.State{Serving: serving,
			Partition: placement.Partition{Leader: leader}}}
	}
	unknown, serves := partitionset.Entry{}, entry(0, true)
	starts, offline := entry(0, false), entry(placement.NoLeader, false)
	type entries = []partitionset.Entry // successive states, one per second
	for name, c := range map[string]struct {
		after   entries
		retired int // index of the state in which the Topic does not exist; 0 if there is none
		count   uint64
		sum     float64
	}{
		"first election":                {entries{unknown, offline, starts, serves}, 0, 0, 0},
		"several elections":             {entries{serves, offline, starts, offline, starts, serves}, 0, 1, 4},
		"restart that was not observed": {entries{serves, starts, serves, serves}, 0, 1, 1},
		"two outages": {entries{serves, offline, serves, starts, starts, serves}, 0,
			2, 3},
		"still unavailable": {entries{serves, offline}, 0, 0, 0},
		"Topic deleted": {entries{serves, offline, offline, offline, starts, serves}, 2,
			0, 0},
	} {
		// Either the operator writes the change, or it observes that the leader has written the change.
		for _, written := range []bool{false, true} {
			o := newMemory("main").outages
			seconds := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds"})
			for i := range c.after {
				d := partitionset.Decided{Before: c.after[i], After: c.after[i],
					Retired: i > 0 && i == c.retired}
				if written && i > 0 {
					d.Before = c.after[i-1]
				}
				o.observe(d, time.Unix(int64(i-1), 0), seconds)
			}
			var metric dto.Metric
			if err := seconds.Write(&metric); err != nil {
				t.Fatal(err)
			}
			if h := metric.GetHistogram(); h.GetSampleCount() != c.count ||
				h.GetSampleSum() != c.sum {
				t.Errorf("%s: got %d outages of %v s in total, want %d of %v s", name,
					h.GetSampleCount(), h.GetSampleSum(), c.count, c.sum)
			}
		}
	}
}
