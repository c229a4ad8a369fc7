package cleaner

import (
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
)

// keepHistory restarts the fixture with a history on its disk.
func (f *fixture) keepHistory() {
	f.t.Helper()
	f.history = func() *passlog.Log {
		return passlog.Open(passlog.Options{FS: f.fsys, Dir: dataDir,
			Logs: func() map[passlog.Key]bool { return HistoryKeys(f.store) }})
	}
	f.restart()
}

// figures contains the values of a report that survive a restart.
type figures struct {
	Runs        map[string]int64
	Sums        [6]int64
	LastSuccess float64 // 0 if absent
	LastPass    report.Pass
}

func figuresOf(r *report.Compaction) figures {
	entry := figures{Runs: r.Runs, Sums: [6]int64{r.ReadBytes, r.WrittenBytes, r.SidecarReadBytes,
		r.SidecarWrittenBytes, r.ReclaimedBytes, r.RemovedRecords}}
	if r.LastSuccess != nil {
		entry.LastSuccess = *r.LastSuccess
	}
	if r.LastPass != nil {
		entry.LastPass = *r.LastPass
		entry.LastPass.Ended = nil // a pointer; LastSuccess has the same value
	}
	return entry
}

// none contains the figures of a log without passes.
var none = figures{Runs: map[string]int64{runSuccess: 0, runNothingToDo: 0, runAborted: 0,
	runFailed: 0}}

// TestFiguresSurviveRestart checks that the counts of passes, their bytes and the time of the last
// success include all passes over the log, also after a restart. The metrics are counters of the
// process.
func TestFiguresSurviveRestart(t *testing.T) {
	inBubble(t, compacted(nil), Options{}, func(t *testing.T, f *fixture) {
		f.keepHistory()
		check := func(when string, want figures) {
			t.Helper()
			if got := figuresOf(f.cleaner.Status(partition)); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, want %+v", when, got, want)
			}
		}
		pass := func() figures {
			keys, _ := updatesOf(50, 5)
			f.put(keys...)
			wait(15 * time.Second)
			return figuresOf(f.cleaner.Status(partition))
		}
		check("before the first pass", none)
		before := pass()
		if before.Runs[runSuccess] != 1 || before.Sums[4] <= 0 || before.LastSuccess == 0 ||
			before.LastPass.Result != runSuccess {
			t.Fatalf("got %+v", before)
		}
		f.restart()
		check("at the start", before) // before the first scan of the scheduler, and again after it
		wait(15 * time.Second)
		check("after a restart", before)
		registry := prometheus.NewRegistry()
		registry.MustRegister(f.cleaner.Collector(nil))
		for name, want := range map[string]float64{"runs_total": 0, "reclaimed_bytes_total": 0,
			"last_success_timestamp_seconds": before.LastSuccess} {
			if got, _ := total(t, registry, "heartwood_cleaner_"+name, "tickets"); got != want {
				t.Errorf("%s is %f after a restart, want %f", name, got, want)
			}
		}

		after := pass()
		if after.Runs[runSuccess] != 2 || after.Sums[0] != before.Sums[0]+after.LastPass.ReadBytes ||
			after.Sums[4] != before.Sums[4]+after.LastPass.ReclaimedBytes ||
			after.LastSuccess <= before.LastSuccess {
			t.Errorf("after another pass: got %+v, before it %+v", after, before)
		}
		config := f.log.Settings()
		f.log.Configure(settings(nil), true) // not compacted
		wait(5 * time.Second)
		f.log.Configure(config, true)
		check("after a change of the policy", after)
		wait(5 * time.Second)
		check("after a change of the policy and a scan", after)
		f.restart()
		check("after two restarts", after)
	})
}

// TestFiguresOfAnotherLogBeginAnew checks that the figures start at zero for a topic that is
// created again, which has another id, and for a replica that returns to a broker, whose log is a
// new copy although the topic id is the same.
func TestFiguresOfAnotherLogBeginAnew(t *testing.T) {
	for name, entry := range map[string]struct {
		topic logstore.TopicID
		wait  time.Duration // time between the removal and the creation
	}{
		"topic created again at once": {topic: topicTwo},
		"topic created again":         {topic: topicTwo, wait: 5 * time.Second},
		"replica returned":            {topic: topicOne, wait: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, compacted(nil), Options{}, func(t *testing.T, f *fixture) {
				f.keepHistory()
				keys, _ := updatesOf(50, 5)
				f.put(keys...)
				wait(15 * time.Second)
				if got := f.cleaner.Status(partition); got.Runs[runSuccess] != 1 {
					t.Fatalf("got %+v", got)
				}
				if err := f.store.Release(partition, true); err != nil {
					t.Fatal(err)
				}
				wait(entry.wait)
				var err error
				if f.log, err = f.store.Create(partition, entry.topic, compacted(nil),
					true); err != nil {
					t.Fatal(err)
				}
				for _, when := range []string{"at once", "after a scan", "after a restart"} {
					if got := figuresOf(f.cleaner.Status(partition)); !reflect.DeepEqual(got, none) {
						t.Errorf("%s: got %+v", when, got)
					}
					if wait(5 * time.Second); when == "after a scan" {
						f.restart()
					}
				}
			})
		})
	}
}
