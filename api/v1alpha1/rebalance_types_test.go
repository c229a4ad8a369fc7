package v1alpha1

import (
	"testing"
	"time"
)

func TestWindowContains(t *testing.T) {
	for _, test := range []struct {
		start, end, clock string
		inside            bool
		until             time.Duration
	}{
		{"09:00", "17:00", "08:59", false, time.Minute},
		{"09:00", "17:00", "09:00", true, 8 * time.Hour},
		{"09:00", "17:00", "17:00", false, 16 * time.Hour},
		{"22:00", "05:30", "23:00", true, 6*time.Hour + 30*time.Minute},
		{"22:00", "05:30", "00:00", true, 5*time.Hour + 30*time.Minute},
		{"22:00", "05:30", "12:00", false, 10 * time.Hour},
	} {
		now, err := time.Parse("2006-01-02 15:04", "2026-11-23 "+test.clock)
		if err != nil {
			t.Fatal(err)
		}
		window := &Window{Start: test.start, End: test.end}
		// the same moment in another zone
		inside, until := window.Contains(now.In(time.FixedZone("", 3600)))
		if inside != test.inside || until != test.until {
			t.Errorf("%+v: got %v, %v", test, inside, until)
		}
	}
	if inside, until := (*Window)(nil).Contains(time.Now()); !inside || until != 0 {
		t.Error("without a window, it is never the right time")
	}
}
