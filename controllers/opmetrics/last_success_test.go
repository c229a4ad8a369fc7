package opmetrics

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

// TestFirstAttemptSetsTheTime checks a resource whose reconciliations have all failed since the
// operator's start. Its time becomes old, and further attempts do not renew the time.
func TestFirstAttemptSetsTheTime(t *testing.T) { synctest.Test(t, testFirstAttempt) }

func testFirstAttempt(t *testing.T) {
	last, err := NewLastSuccess(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	key := types.NamespacedName{Namespace: "n", Name: "main"}
	series := func() prometheus.Gauge {
		return last.gauge.WithLabelValues("logcluster", "n", "main")
	}
	expectNow := func(after string) {
		t.Helper()
		if n := testutil.CollectAndCount(last.gauge); n != 1 {
			t.Fatalf("%d series after %s, want 1", n, after)
		}
		if set, now := testutil.ToFloat64(series()), time.Now().Unix(); set != float64(now) {
			t.Errorf("%s set the time to %v, want %d", after, set, now)
		}
	}
	last.Begin("logcluster", key)
	expectNow("the first attempt")
	series().Set(5)
	last.Begin("logcluster", key)
	if got := testutil.ToFloat64(series()); got != 5 {
		t.Errorf("the second attempt set the time to %v", got)
	}
	last.Record("logcluster", key)
	expectNow("a success")
	series().Set(5)
	last.Begin("logcluster", key)
	if got := testutil.ToFloat64(series()); got != 5 {
		t.Errorf("an attempt after a success set the time to %v", got)
	}
	last.Forget("logcluster", key)
	if n := testutil.CollectAndCount(last.gauge); n != 0 {
		t.Errorf("%d series of a deleted resource", n)
	}
	last.Begin("logcluster", key)
	expectNow("the first attempt after a deletion")
}
