package kafka

import (
	"testing"

	"heartwood.dev/heartwood/internal/kafkaclient"
)

// TestTailWindow checks that a step without a filter reads at most its quota, and that each step
// ends at the end of the log. The offsets that a step reads and skips must add up to all offsets
// from its position on.
func TestTailWindow(t *testing.T) {
	span := func(begin, end int64) kafkaclient.Span {
		return kafkaclient.Span{Begin: begin, End: end}
	}
	for _, test := range []struct {
		offset, end int64
		filtered    bool
		window      kafkaclient.Span
		skipped     int64
	}{
		{10, 10, false, span(10, 10), 0},
		{10, 40, false, span(10, 40), 0},
		{10, 60, false, span(10, 60), 0},
		{10, 61, false, span(11, 61), 1},
		{0, 1_000_000, false, span(999_950, 1_000_000), 999_950},
		{0, 1_000_000, true, span(0, 1_000_000), 0},
		{70, 60, false, span(60, 60), 0}, // truncated
		{70, 60, true, span(60, 60), 0},
	} {
		window, skipped := tailWindow(test.offset, test.end, 50, test.filtered)
		if window != test.window || skipped != test.skipped {
			t.Errorf("%+v: got %v and %d skipped", test, window, skipped)
		}
	}
}
