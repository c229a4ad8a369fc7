package partition

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
)

func TestOutageLastsUntilTheNextLeaderServes(t *testing.T) {
	status := func(condition metav1.Condition) v1alpha1.PartitionStatus {
		return v1alpha1.PartitionStatus{Conditions: []metav1.Condition{condition}}
	}
	serves := status(conditions.Ready(""))
	starts, offline := status(conditions.NotReady(v1alpha1.ReasonLeaderStarting, "")),
		status(conditions.NotReady(v1alpha1.ReasonLeaderOffline, ""))
	retained := status(conditions.NotReady(v1alpha1.ReasonRetained, ""))
	for name, c := range map[string]struct {
		after []v1alpha1.PartitionStatus // successive statuses, one per second
		count uint64
		sum   float64
	}{
		"first election": {[]v1alpha1.PartitionStatus{{}, offline, starts,
			serves}, 0, 0},
		"several elections": {[]v1alpha1.PartitionStatus{serves, offline, starts,
			offline, starts, serves}, 1, 4},
		"restart that was not observed": {[]v1alpha1.PartitionStatus{serves, starts, serves,
			serves}, 1, 1},
		"two outages": {[]v1alpha1.PartitionStatus{serves, offline, serves,
			starts, starts, serves}, 2, 3},
		"still unavailable": {[]v1alpha1.PartitionStatus{serves, offline}, 0, 0},
		"Topic deleted": {[]v1alpha1.PartitionStatus{serves, offline, retained,
			offline, starts, serves}, 0, 0},
	} {
		// Either the operator writes condition Ready with status True, or it finds that the leader
		// has already written it.
		for _, writtenByLeader := range []bool{false, true} {
			o := newOutages(prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds"}))
			for i := range c.after[1:] {
				before := c.after[i]
				if ready := c.after[i+1].Conditions; writtenByLeader && len(ready) > 0 &&
					ready[0].Status == metav1.ConditionTrue {
					before = c.after[i+1]
				}
				o.observe(types.NamespacedName{Name: "orders-0"}, before, c.after[i+1],
					time.Unix(int64(i), 0))
			}
			var metric dto.Metric
			if err := o.seconds.Write(&metric); err != nil {
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
