package controllers

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestOutagesLastFromTheLeadersEndUntilTheNextServes(t *testing.T) {
	status := func(condition metav1.Condition) v1alpha1.PartitionStatus {
		return v1alpha1.PartitionStatus{Conditions: []metav1.Condition{condition}}
	}
	serves := status(ready(""))
	starts, offline := status(notReady(v1alpha1.ReasonLeaderStarting, "")),
		status(notReady(v1alpha1.ReasonLeaderOffline, ""))
	retained := status(notReady(v1alpha1.ReasonRetained, ""))
	for name, c := range map[string]struct {
		after []v1alpha1.PartitionStatus // one a second
		count uint64
		sum   float64
	}{
		"a first leader is no outage": {[]v1alpha1.PartitionStatus{{}, offline, starts,
			serves}, 0, 0},
		"from the first loss to the end": {[]v1alpha1.PartitionStatus{serves, offline, starts,
			offline, starts, serves}, 1, 4},
		"an incarnation that nobody missed": {[]v1alpha1.PartitionStatus{serves, starts, serves,
			serves}, 1, 1},
		"two": {[]v1alpha1.PartitionStatus{serves, offline, serves,
			starts, starts, serves}, 2, 3},
		"it lasts": {[]v1alpha1.PartitionStatus{serves, offline}, 0, 0},
		"a Topic that went is none": {[]v1alpha1.PartitionStatus{serves, offline, retained,
			offline, starts, serves}, 0, 0},
	} {
		// Each is written by the operator, or by the leader: then it is found as it should be.
		for _, writtenByLeader := range []bool{false, true} {
			o := measureOutages(prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds"}))
			for i := range c.after[1:] {
				before := c.after[i]
				if ready := c.after[i+1].Conditions; writtenByLeader && len(ready) > 0 &&
					ready[0].Status == metav1.ConditionTrue {
					before = c.after[i+1]
				}
				o.changed(types.NamespacedName{Name: "orders-0"}, before, c.after[i+1],
					time.Unix(int64(i), 0))
			}
			var shown dto.Metric
			if err := o.seconds.Write(&shown); err != nil {
				t.Fatal(err)
			}
			if h := shown.GetHistogram(); h.GetSampleCount() != c.count ||
				h.GetSampleSum() != c.sum {
				t.Errorf("%s: %d outages of %v s together, want %d and %v", name,
					h.GetSampleCount(), h.GetSampleSum(), c.count, c.sum)
			}
		}
	}
}
