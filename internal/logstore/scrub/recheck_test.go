package scrub

import (
	"testing"
	"time"
)

// TestEachTargetIsRecheckedAtItsOwnTime checks that the delay of one target neither delays nor
// hastens the check of another one.
func TestEachTargetIsRecheckedAtItsOwnTime(t *testing.T) {
	slow, soon, now := Target{Topic: "a", Base: 1}, Target{Topic: "b", Base: 2}, time.Now()
	r := rechecks{}
	if _, due, wait := r.first(now, time.Hour); due || wait != time.Hour {
		t.Errorf("empty: due %v, wait %v", due, wait)
	}
	r[soon], r[slow] = recheck{due: now.Add(retryDelay)}, recheck{due: now.Add(replaceDelay)}
	r.add(soon)
	for _, step := range []struct {
		after time.Duration
		want  Target
		wait  time.Duration
	}{
		{0, Target{}, retryDelay}, {retryDelay, soon, 0},
		{replaceDelay - time.Second, Target{}, time.Second}, {replaceDelay, slow, 0},
	} {
		got, due, wait := r.first(now.Add(step.after), time.Hour)
		if due != (step.wait == 0) || due && got != step.want || !due && wait != step.wait {
			t.Errorf("after %v: got %v, due %v, wait %v; want %+v", step.after, got, due, wait, step)
		}
		if due {
			delete(r, got)
		}
	}
	r[slow] = recheck{due: now.Add(replaceDelay)}
	r.add(soon)
	if got, due, _ := r.first(now, 0); got != soon || !due {
		t.Errorf("a segment whose damage a read has found: got %v, due %v", got, due)
	}
	delete(r, soon)
	if _, due, _ := r.first(now, 0); due {
		t.Error("the other target is due, too")
	}
}
