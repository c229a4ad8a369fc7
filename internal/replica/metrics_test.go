package replica

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestTrafficIsCountedByTopic checks that each topic has its own series of the traffic metrics, and
// that deleting the topic deletes them.
func TestTrafficIsCountedByTopic(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 2, nil)
	b.topic("b", 1, nil)
	b.apply()
	b.mustProduce(id("a", 0), "x", "y")
	b.mustProduce(id("a", 1), "z")
	size := float64(len(batch(t, "x", "y")) + len(batch(t, "z")))
	for range 2 {
		for _, result := range b.Fetch(t.Context(), fetch(0, 0, id("a", 0), id("a", 1))) {
			values(t, result)
		}
	}
	_ = b.Fetch(t.Context(), fetch(time.Nanosecond, 0, id("none", 0)))
	for name, c := range map[string]struct {
		counter *prometheus.CounterVec
		want    float64
	}{
		"produced_bytes_total":   {b.metrics.producedBytes, size},
		"produced_records_total": {b.metrics.producedRecords, 3},
		"fetched_bytes_total":    {b.metrics.fetchedBytes, 2 * size},
	} {
		if got := testutil.ToFloat64(c.counter.WithLabelValues("a")); got != c.want {
			t.Errorf("%s of a is %v, want %v", name, got, c.want)
		}
		if got := testutil.ToFloat64(c.counter.WithLabelValues("b")); got != 0 {
			t.Errorf("%s of b is %v", name, got)
		}
	}
	delete(b.topics, "a")
	b.apply()
	if series := testutil.CollectAndCount(b.metrics.producedBytes); series != 1 {
		t.Errorf("%d series, want only that of b", series)
	}
}
