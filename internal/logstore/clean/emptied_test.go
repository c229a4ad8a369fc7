package clean

import (
	"fmt"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
)

// idle runs passes as long as the log needs them while nothing is appended, like the scheduler, and
// returns their number. It fails after 10 passes, because an idle log must soon need no further
// pass.
func (l *fakeLog) idle(stats Stats) (passes int) {
	l.t.Helper()
	for ; !stats.NextPass.IsZero(); passes++ {
		if passes == 10 || stats.NextPass.Before(l.now) {
			l.t.Fatalf("another pass is planned for %s after %d passes", stats.NextPass, passes)
		}
		l.now = stats.NextPass
		stats = l.pass()
	}
	return passes
}

// TestI20MarkersOfABurstAreRemovedFromAnIdleLog checks an idle log after a burst of transactions on
// a few keys. The pass that removes a transaction's last batch plans another pass one retention
// later, which removes the transaction's marker.
func TestI20MarkersOfABurstAreRemovedFromAnIdleLog(t *testing.T) {
	for name, memory := range map[string]int64{"one window": 64 << 20, "many windows": 10} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", commit), func(t *testing.T) {
				l := newLog(t)
				l.job.Limits.MemoryBytes = memory
				l.put("x=1")
				for i := range 90 {
					l.txn(7, compress.None, fmt.Sprintf("k%d=%d", i%3, i))
					l.end(7, commit)
					if i%20 == 19 {
						l.roll()
					}
				}
				l.roll()
				l.job.Producers = map[int64]Producer{7: {LastOffset: l.next - 2}}
				stats := l.pass()
				if want := l.now.Add(time.Hour); !stats.NextPass.Equal(want) {
					t.Errorf("next pass at %s, want %s", stats.NextPass, want)
				}
				if passes := l.idle(stats); passes != 1 {
					t.Errorf("%d more passes, want 1", passes)
				}
				want := "[176 178 180]" // offsets of the latest records
				if !commit {
					want = "[180]" // offset of the producer's empty batch
				}
				if got := l.markers(); got != want {
					t.Errorf("markers at %s, want %s", got, want)
				}
			})
		}
	}
}

// TestI28EmptyBatchesOfExpiredProducersAreRemovedFromAnIdleLog differs from the previous test in
// one point: each transaction has another producer. The producer's empty batch, and therefore the
// marker, remains until the producer expires. A pass is planned for that time, because these
// batches make up most of the log.
func TestI28EmptyBatchesOfExpiredProducersAreRemovedFromAnIdleLog(t *testing.T) {
	l := newLog(t)
	l.job.Producers = map[int64]Producer{}
	expires := l.now.Add(24 * time.Hour)
	for id := range int64(50) {
		l.job.Producers[id] = Producer{LastOffset: l.next, ExpiresAt: expires}
		l.txn(id, compress.None, fmt.Sprintf("k=%d", id))
		l.end(id, true)
	}
	l.put("k=50")
	l.roll()
	stats := l.pass()
	if len(l.batches()) != 101 || !stats.NextPass.Equal(expires) {
		t.Fatalf("%d batches remain, stats %+v", len(l.batches()), stats)
	}
	l.now, l.job.Producers = stats.NextPass, nil
	if passes := l.idle(l.pass()); passes != 1 || len(l.batches()) != 1 {
		t.Errorf("after %d more passes %d batches remain", passes, len(l.batches()))
	}
}

// TestExpiringProducersOfALargeSegmentCauseNoPass checks that a few empty batches in a large
// segment do not justify a pass.
func TestExpiringProducersOfALargeSegmentCauseNoPass(t *testing.T) {
	l := newLog(t)
	l.txn(1, compress.None, "k=1")
	l.end(1, true)
	l.fill("live", 200)
	l.put("k=2")
	l.roll()
	l.job.Producers = map[int64]Producer{1: {LastOffset: 0, ExpiresAt: l.now.Add(24 * time.Hour)}}
	if stats := l.pass(); !stats.NextPass.IsZero() {
		t.Errorf("stats %+v", stats)
	}
}
