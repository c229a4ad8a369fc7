package offsets

import (
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/test/kit/seed"
)

// check verifies LogStart <= LastStable <= HighWatermark <= LogEnd.
func check(t *testing.T, o *Offsets, step string) {
	t.Helper()
	start, stable, mark, end := o.LogStart(), o.LastStable(), o.HighWatermark(), o.LogEnd()
	if start > stable || stable > mark || mark > end {
		t.Fatalf("after %s: start %d, last stable %d, high watermark %d, end %d", step, start,
			stable, mark, end)
	}
}

func TestOffsetsStayOrdered(t *testing.T) {
	for s := range seed.Sequence(t, 20) {
		random := rand.New(rand.NewPCG(s, 0))
		var o Offsets
		var producers producer.State
		o.Restore(0, 0, 0, &producers)
		for range 300 {
			end := o.LogEnd()
			step := ""
			switch random.IntN(5) {
			case 0:
				step = "an append"
				o.SetLogEnd(end + random.Int64N(5))
			case 1:
				step = "an advance"
				before, to := o.HighWatermark(), random.Int64N(end+10)
				moved := o.AdvanceHighWatermark(to)
				if want := max(before, min(to, end)); o.HighWatermark() != want ||
					moved != (want > before) {
					t.Fatalf("high watermark %d (%t) after an advance from %d to %d of %d",
						o.HighWatermark(), moved, before, to, end)
				}
			case 2:
				step = "a deletion"
				o.RaiseLogStart(max(o.LogStart(), random.Int64N(o.HighWatermark()+1)), &producers)
			case 3:
				step = "a truncation"
				to := random.Int64N(end + 1)
				o.Lower(min(o.LogStart(), to), to, &producers)
			case 4:
				step = "a restart"
				if random.IntN(10) == 0 {
					to := random.Int64N(end + 20)
					o.Lower(to, to, &producers)
				}
			}
			check(t, &o, step)
		}
	}
}

// TestLastStableWaitsForMarkers checks that the records of an ended transaction are stable only
// once the transaction's marker is replicated, because until then another leader may not have the
// marker.
func TestLastStableWaitsForMarkers(t *testing.T) {
	var o Offsets
	var producers producer.State
	o.Restore(0, 7, 20, &producers)
	o.RestoreEnded([]producer.EndedTxn{ended(5, 9), ended(8, 12)})
	for _, step := range []struct{ mark, stable int64 }{{7, 5}, {9, 5}, {10, 8}, {12, 8}, {13, 13},
		{20, 20}} {
		o.AdvanceHighWatermark(step.mark)
		if got := o.LastStable(); got != step.stable {
			t.Errorf("last stable offset %d at the high watermark %d, want %d", got, step.mark,
				step.stable)
		}
	}
}

// ended returns a transaction with the given first offset and marker offset.
func ended(first, marker int64) producer.EndedTxn {
	return producer.EndedTxn{AbortedTxn: segment.AbortedTxn{FirstOffset: first, LastOffset: marker}}
}
