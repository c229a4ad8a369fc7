package clean

import (
	"fmt"
	"math"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// many appends n records in batches of 500. Record i has the key that key(i) returns.
func (l *fakeLog) many(n int, key func(i int) string) {
	l.t.Helper()
	records := make([]string, 0, 500)
	for i := range n {
		if records = append(records, key(i)+"=some value"); len(records) == cap(records) ||
			i == n-1 {
			l.batch(compress.None, record.Identity{ProducerID: -1}, records...)
			records = records[:0]
		}
	}
}

func TestF15EstimateOfAMillionRecordsIsWithinTwoPoints(t *testing.T) {
	if testing.Short() {
		t.Skip("a million records take some seconds")
	}
	l := newLog(t)
	const segments, each = 8, 125_000
	for s := range segments {
		l.many(each, func(i int) string {
			return fmt.Sprintf("key %d",
				(i*7919+s*31_337)%(each*4))
		})
		l.roll()
	}
	estimate, err := EstimateGarbage(t.Context(), l.whole())
	l.must(err)
	job := l.whole()
	job.Rules.MaxGarbagePercent = 100 // the pass measures garbage, but removes little
	stats, err := Run(t.Context(), job)
	l.must(err)
	records := float64(segments * each)
	got, want := float64(estimate.GarbageRecords)/records,
		float64(stats.GarbageRecords+stats.RecordsRemoved)/records
	if want < 0.3 || math.Abs(got-want) > 0.02 {
		t.Errorf("the estimate is %.4f of the records, the garbage is %.4f", got, want)
	}
	var sidecars int64
	for _, s := range l.segments[:segments] {
		r, err := l.sidecar(t.Context(), s, unthrottled())
		l.must(err)
		sidecars += r.SizeBytes()
		l.must(r.Close())
	}
	// The estimate reads the sampled slice, the rest of the slice's first and last bucket, and the
	// batch entries.
	if estimate.ReadBytes > sidecars/20 {
		t.Errorf("the estimate read %d bytes of %d", estimate.ReadBytes, sidecars)
	}
}

// unthrottled returns SidecarOptions whose functions do nothing.
func unthrottled() SidecarOptions {
	free := func(int) error { return nil }
	return SidecarOptions{LogRead: free, SidecarWritten: free}
}

func TestEstimateCountsUnkeyedAndAbortedRecords(t *testing.T) {
	l := newLog(t)
	for range 50 {
		l.put("=no key", "=none here")
		l.txn(7, compress.None, "a=1", "b=2")
		l.end(7, false)
	}
	l.roll()
	estimate, err := EstimateGarbage(t.Context(), l.whole())
	l.must(err)
	if estimate.GarbageRecords != 200 {
		t.Errorf("estimate %+v, want 200 dead records", estimate)
	}
	if stats := l.pass(); stats.RecordsRemoved != 200 {
		t.Errorf("stats %+v", stats)
	}
}
