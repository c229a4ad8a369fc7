package summary

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// leadersOf returns the given reports as rows of leaders.
func leadersOf(all ...*report.Compaction) Rows {
	rows := Rows{At: noon}
	for i, compaction := range all {
		rows.Replicas = append(rows.Replicas,
			report.Partition{Topic: "tickets", Partition: int32(i), Leader: true,
				Compaction: compaction})
	}
	return rows
}

func TestCompactionOfPartitions(t *testing.T) {
	rows := leadersOf(
		&report.Compaction{DirtyRatio: 0.364, Phase: "idle", ReclaimableBytes: new(int64(1 << 20)),
			LastSuccess: new(1767268800.9)},
		&report.Compaction{DirtyRatio: 0.2, Phase: "rewriting", ProgressRatio: 0.5,
			EtaSeconds: new(7.0), ReclaimableBytes: new(int64(1 << 20)),
			LastSuccess: new(1767268900.0)},
		&report.Compaction{DirtyRatio: 0.1, Phase: "indexing", ProgressRatio: 0.1,
			EtaSeconds: new(61.2), ReclaimableBytes: new(int64(0))},
	)
	// A follower's report must be ignored.
	rows.Replicas = append(rows.Replicas,
		report.Partition{Compaction: &report.Compaction{DirtyRatio: 1, Phase: "committing",
			LastSuccess: new(1.0)}})
	got := Compaction(rows)
	if *got.DirtyPercent != 36 || got.Phase != "Rewriting" || got.Reclaimable.String() != "2Mi" ||
		*got.ProgressPercent != 30 {
		t.Errorf("dirty %d %%, phase %s, reclaimable %s, progress %d", *got.DirtyPercent, got.Phase,
			got.Reclaimable, *got.ProgressPercent)
	}
	if want := time.Unix(1767268800, 0); !got.LastCleanTime.Time.Equal(want) {
		t.Errorf("last cleaned %s, want the oldest, %s", got.LastCleanTime, want)
	}
	if want := noon.Add(70 * time.Second); !got.EstimatedCompletionTime.Time.Equal(want) {
		t.Errorf("ETA %s, want that of the last pass, %s", got.EstimatedCompletionTime, want)
	}
}

func TestUnknownValuesAreAbsent(t *testing.T) {
	if got := Compaction(leadersOf()); got != nil {
		t.Errorf("without rows: got %+v, want nil", got)
	}
	if got := Compaction(leadersOf(nil)); got != nil {
		t.Errorf("leader without a compaction report: got %+v, want nil", got)
	}
	got := Compaction(leadersOf(&report.Compaction{Phase: "idle", ReclaimableBytes: new(int64(5))},
		&report.Compaction{Phase: "idle"}))
	want := &v1alpha1.CompactionStatus{DirtyPercent: new(int32(0)), Phase: "Idle"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the reclaimable bytes of one partition are unknown (-want +got): %s", diff)
	}
	got = Compaction(leadersOf(&report.Compaction{Phase: "indexing", EtaSeconds: new(5.0)},
		&report.Compaction{Phase: "indexing"}))
	if got.EstimatedCompletionTime != nil || *got.ProgressPercent != 0 {
		t.Errorf("one pass has no estimate: got %+v, want no ETA and progress 0", got)
	}
}

// TestRunningPassIsNotDone checks that rounding does not show 100 % while a chosen segment is left.
func TestRunningPassIsNotDone(t *testing.T) {
	for ratio, want := range map[float64]int32{0.994: 99, 0.9999: 99, 1: 100} {
		got := Compaction(leadersOf(&report.Compaction{Phase: "rewriting", ProgressRatio: ratio}))
		if *got.ProgressPercent != want {
			t.Errorf("progress %v: got %d, want %d", ratio, *got.ProgressPercent, want)
		}
	}
}

func TestInvalidReportsGiveValidStatus(t *testing.T) {
	for ratio, want := range map[float64]int32{math.NaN(): 0, math.Inf(1): 100, -3: 0, 7: 100,
		0.005: 1} {
		if got := percent(ratio); got != want {
			t.Errorf("percent(%v) = %d, want %d", ratio, got, want)
		}
	}
	for _, seconds := range []float64{math.NaN(), math.Inf(1), 1e300} {
		got := Compaction(leadersOf(&report.Compaction{
			Phase: "indexing", EtaSeconds: &seconds, ReclaimableBytes: new(int64(-7)),
			LastSuccess: new(math.Inf(-1)),
		}))
		if got.EstimatedCompletionTime != nil || got.Reclaimable.Value() != 0 ||
			got.LastCleanTime != nil {
			t.Errorf("%v seconds: got %+v, want no ETA, 0 reclaimable and no last clean", seconds, got)
		}
	}
	if got := Compaction(leadersOf(&report.Compaction{Phase: "unknown",
		DirtyRatio: math.NaN()})); got.Phase != "Idle" || *got.DirtyPercent != 0 {
		t.Errorf("%+v", got)
	}
}

// TestETAOfASteadyPassIsStable checks the estimated end of a pass that progresses steadily: it
// changes only when its rounding gets finer. It is a point in time, because a remaining duration
// would change with each report.
func TestETAOfASteadyPassIsStable(t *testing.T) {
	end := noon.Add(3*time.Hour + 7*time.Second)
	seen := map[time.Time]bool{}
	for now := noon; now.Before(end); now = now.Add(15 * time.Second) {
		got := roundEnd(now, end.Sub(now)).Time
		if late := got.Sub(end); late < 0 || late >= 10*time.Minute {
			t.Fatalf("at %s: ETA %s, %s late", now, got, late)
		}
		seen[got] = true
	}
	if len(seen) != 3 {
		t.Errorf("the ETA changed %d times, want 2: it gets finer twice", len(seen)-1)
	}
	var none *metav1.Time
	if timeOf(nil) != none {
		t.Error("timeOf(nil) is not nil")
	}
}

func TestSizesAreRoundedByAFewPercent(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 1: 1, 31: 31, 33: 34, 1 << 20: 1 << 20,
		1234567: 19 << 16, math.MaxInt64: math.MaxInt64} {
		if got := roundBytes(n); got != want {
			t.Errorf("%d is rounded to %d, want %d", n, got, want)
		}
	}
	for n := int64(1); n < math.MaxInt64/3; n = n*3 + 1 {
		if off := math.Abs(float64(roundBytes(n)-n)) / float64(n); off > 1.0/32 {
			t.Errorf("%d is rounded by %v", n, off)
		}
	}
}
