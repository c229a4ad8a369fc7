package progress

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestX1CleaningProgressAfterReplicasAreAdded adds replicas to a log. The cleaning progress at or
// above this replica's tombstone-clean offset then starts over, because the new replicas may copy
// records in this range that this replica has not yet removed.
func TestX1CleaningProgressAfterReplicasAreAdded(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			var a cleaningProgress
			a.restore(nil, 100)
			a.advance(onlyReplica, 40, storetest.Start, time.Hour)
			if _, ok := a.ForPass().Since(99); !ok {
				t.Error("no progress of the only replica")
			}
			if restart {
				steps := a.saved(40)
				a = cleaningProgress{}
				a.restore(steps, 100)
			}
			a.advance(60, 40, storetest.Start.Add(30*time.Minute), time.Hour)
			early, ok := a.ForPass().Since(39)
			late, also := a.ForPass().Since(40)
			if !ok || !also || early >= storetest.Start.Add(10*time.Minute).UnixMilli() ||
				late < storetest.Start.Add(30*time.Minute).UnixMilli() {
				t.Errorf("offset 39 is clean since %d (%t), offset 40 since %d (%t)", early, ok, late,
					also)
			}
		})
	}
}
