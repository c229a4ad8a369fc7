package console

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
)

// goldenScrubs returns the scrubs of a broker with damage, and of a broker whose first round is
// running.
func goldenScrubs() []report.Scrub {
	return []report.Scrub{{Broker: 1, State: report.ScrubRunning, CheckedSegments: 3, Segments: 40,
		Began: new(ago(time.Minute)), CheckedBytes: 12 << 20},
		{Broker: 0, State: report.ScrubWaiting, CheckedSegments: 40, Segments: 40,
			CheckedSince: new(ago(50 * time.Hour)), Ended: new(ago(47 * time.Hour)),
			CheckedBytes: 9 << 30,
			Damage: []report.ScrubDamage{{Topic: "customers", Partition: 1, Position: 4711,
				File: "customers-1/00000000000000000000.log", Problem: hostileText,
				Found: ago(48 * time.Hour)}, {File: "cleaner-history", Problem: "line 3 is not JSON",
				Found: ago(47 * time.Hour)}},
			Repaired: []report.ScrubDamage{{Topic: "customers", Found: ago(49 * time.Hour),
				File: "customers-0/00000000000000000007.index", Position: 8,
				Problem: "does not ascend", Repaired: new(ago(49 * time.Hour))}}}}
}

func TestScrubPanelListsAtMost(t *testing.T) {
	s := report.Scrub{Damage: make([]report.ScrubDamage, damageMax),
		Repaired: make([]report.ScrubDamage, 3)}
	if got := scrubPanelOf([]report.Scrub{s}, goldenNow); len(got.Damage) != damageMax ||
		got.More != 3 {
		t.Errorf("%d rows, %d more", len(got.Damage), got.More)
	}
	if got := scrubPanelOf(nil, goldenNow); len(got.Rows) != 0 {
		t.Errorf("%+v", got)
	}
}
