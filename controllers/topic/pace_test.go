package topic

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func statusOf(ready, replicated string) (status v1alpha1.TopicStatus) {
	for kind, reason := range map[string]string{v1alpha1.ConditionReady: ready,
		v1alpha1.ConditionReplicated: replicated} {
		if reason != "" {
			meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Reason: reason})
		}
	}
	return status
}

// TestStatusIsWrittenOnceItIsSettled checks the writes for a new Topic and during a failover: a
// settled status is written at once, any other status only if it lasts.
func TestStatusIsWrittenOnceItIsSettled(t *testing.T) {
	start, key := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), types.NamespacedName{Name: "orders"}
	var none v1alpha1.TopicStatus
	starting := statusOf(v1alpha1.ReasonPartitionsNotReady, v1alpha1.ReasonUnderReplicated)
	lagging := statusOf(v1alpha1.ReasonReady, v1alpha1.ReasonUnderReplicated)
	ready := statusOf(v1alpha1.ReasonReady, v1alpha1.ReasonInSync)
	refused := statusOf(v1alpha1.ReasonNotEnoughBrokers, v1alpha1.ReasonUnderReplicated)
	pace := Pace{}.withDefaults()
	var u unsettledTopics
	for _, step := range []struct {
		name          string
		elapsed       time.Duration
		before, after v1alpha1.TopicStatus
		want          time.Duration
	}{
		{"created", 0, none, starting, 2 * time.Second},
		{"still starting", time.Second, none, starting, time.Second},
		{"ready", 1500 * time.Millisecond, none, ready, 0},
		{"failed over", time.Minute, ready, starting, 2 * time.Second},
		{"over", time.Minute + 900*time.Millisecond, ready, ready, 0},
		{"failed again", 2 * time.Minute, ready, starting, 2 * time.Second},
		{"lasts", 2*time.Minute + 2*time.Second, ready, starting, 0},
		{"another number", 2*time.Minute + 3*time.Second, starting, starting, 9 * time.Second},
		{"another reason", 2*time.Minute + 4*time.Second, starting, lagging, 0},
		{"refused", 2*time.Minute + 5*time.Second, lagging, refused, 0},
	} {
		now := start.Add(step.elapsed)
		got := u.wait(key, step.before, step.after, settled(step.after), pace, now)
		if got != step.want {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
		if got == 0 {
			u.record(key, now)
		}
	}
}
