package partition

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestLeadershipMovesBackAfterTheDelay(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	key := types.NamespacedName{Name: "orders-0"}
	p := newPreferredLeaders(30 * time.Second)
	for _, step := range []struct {
		at       time.Duration
		eligible bool
		due      bool
		again    time.Duration
	}{
		{0, true, false, 30 * time.Second},
		{20 * time.Second, true, false, 10 * time.Second},
		// not eligible: the delay starts again with the next step
		{25 * time.Second, false, false, 0},
		{26 * time.Second, true, false, 30 * time.Second},
		{56 * time.Second, true, true, 0},
		{57 * time.Second, true, true, 0},
	} {
		due, again := p.observe(key, step.eligible, start.Add(step.at))
		if due != step.due || again != step.again {
			t.Errorf("after %v, eligible %t: got due %t, again after %v; want %t, %v", step.at,
				step.eligible, due, again, step.due, step.again)
		}
	}
	p.forget(key)
	if due, _ := p.observe(key, true, start.Add(time.Hour)); due {
		t.Error("after forget: got due at once, want due after the delay")
	}
}
