package admin

import (
	"strconv"
	"testing"
	"time"
)

func TestRequestsWithOneKeyAreLoggedOncePerMinute(t *testing.T) {
	begin := time.Now()
	var l logLimit
	for _, step := range []struct {
		key     string
		after   time.Duration
		want    bool
		omitted int
	}{
		{"a", 0, true, 0}, {"a", 59 * time.Second, false, 0}, {"b", 59 * time.Second, true, 1},
		{"b", time.Minute, false, 0}, {"b", 61 * time.Second, false, 0},
		{"a", 62 * time.Second, true, 2}, {"a", 3 * time.Minute, true, 0},
	} {
		omitted, due := l.due(step.key, begin.Add(step.after))
		if due != step.want || omitted != step.omitted {
			t.Errorf("%s after %v: due %t with %d omitted, want %t with %d", step.key, step.after,
				due, omitted, step.want, step.omitted)
		}
	}
}

// TestLoggedKeysAreBounded alternates between more than logKeysMax keys. Each key may be logged at
// most once per minute, and at most logKeysMax keys may be logged.
func TestLoggedKeysAreBounded(t *testing.T) {
	var l logLimit
	begin := time.Now()
	logged := 0
	for i := range 10 * logKeysMax {
		for range 2 {
			if _, due := l.due(strconv.Itoa(i%(2*logKeysMax)), begin); due {
				logged++
			}
		}
	}
	if logged != logKeysMax || len(l.loggedAt) != logKeysMax {
		t.Errorf("got %d messages and %d keys, want %d", logged, len(l.loggedAt), logKeysMax)
	}
	omitted, due := l.due("late", begin.Add(logInterval))
	if !due || omitted != 18*logKeysMax+1 || len(l.loggedAt) != 1 {
		t.Errorf("after a minute: due %t, %d omitted, %d keys, want the new one only", due, omitted,
			len(l.loggedAt))
	}
}
