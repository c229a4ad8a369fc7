package controllers

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/placement"
)

// TestWhenTheOthersAreTold: those that a broker does not lead hear of it later, and later still
// when it is back; one that comes and goes puts nothing off.
func TestWhenTheOthersAreTold(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	gone, back := placement.BrokerState{Liveness: placement.Down},
		placement.BrokerState{Liveness: placement.Up}
	for name, test := range map[string]struct {
		told  told
		after time.Duration
		in    time.Duration
		ok    bool
	}{
		"they know":                {told{standing: back}, 0, 0, false},
		"it has gone":              {told{gone, began}, time.Second, goneAfter - time.Second, true},
		"it has been gone":         {told{gone, began}, goneAfter, 0, true},
		"it is back":               {told{back, began}, goneAfter, backAfter - goneAfter, true},
		"it has been back":         {told{back, began}, backAfter + time.Hour, 0, true},
		"it was back, and is gone": {told{gone, began}, backAfter - time.Second, 0, true},
	} {
		if in, ok := test.told.othersIn(began.Add(test.after)); in != test.in || ok != test.ok {
			t.Errorf("%s: in %v, %t, want %v, %t", name, in, ok, test.in, test.ok)
		}
	}
}
