package outcome

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/factstest"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// TestOnlyAWaitForTheSameBrokerIsStuck checks that an update is stuck only if it waits for the same
// broker all the time, because an update of many brokers can take hours in total. Alert
// HeartwoodRolloutStuck depends on this reason.
func TestOnlyAWaitForTheSameBrokerIsStuck(t *testing.T) {
	s := factstest.Outdated()
	key, outcomes := types.NamespacedName{Name: "main"}, &Outcomes{}
	begin := time.Now()
	reason := func(minute int, broker int32) string {
		now := begin.Add(time.Duration(minute) * time.Minute)
		outcomes.Put(key, decided(rollout.Decision{Phase: rollout.Waiting, Broker: broker,
			Outdated: int(broker) + 1}), now)
		last, _ := outcomes.Get(key)
		return last.rollingOutCondition(s, nil, now).Reason
	}
	for minute := range 60 {
		if got := reason(minute, int32(60-minute)); got == v1alpha1.ReasonStuck {
			t.Fatalf("another broker each minute, minute %d: reason %s", minute, got)
		}
	}
	for _, broker := range []int32{0, -1} { // -1: template not observed yet
		for minute := range 30 {
			want := v1alpha1.ReasonWaiting
			switch {
			case minute >= 10:
				want = v1alpha1.ReasonStuck
			case broker < 0:
				want = v1alpha1.ReasonObserving
			}
			if got := reason(minute, broker); got != want {
				t.Errorf("broker %d, minute %d: reason %s, want %s", broker, minute, got, want)
			}
		}
	}
}
