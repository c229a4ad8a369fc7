package cleaner

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// manual returns settings with which a pass starts only on request.
func manual() topicconfig.Settings {
	return compacted(func(s *topicconfig.Settings) { s.MinDirtyPercent = 100 })
}

func (f *fixture) cleanNow() int64 {
	f.t.Helper()
	ticket, err := f.cleaner.CleanNow(partition)
	if err != nil {
		f.t.Fatal(err)
	}
	return ticket
}

// TestRequestIsServedByTicket checks that each request has a ticket. The status reports the last
// ticket that was served, and the result of the last pass.
func TestRequestIsServedByTicket(t *testing.T) {
	inBubble(t, manual(), Options{}, func(t *testing.T, f *fixture) {
		keys, latest := updatesOf(100, 5)
		f.put(keys...)
		wait(20 * time.Second)
		if status := f.cleaner.Status(partition); status.LastPass != nil ||
			status.CleanNowAsked != 0 || status.Reason != reasonBelowDirtyRatio {
			t.Fatalf("before the request: %+v", status)
		}
		// Request twice before a pass can start. One pass then serves both requests.
		first, second := f.cleanNow(), f.cleanNow()
		if first != 1 || second != 2 {
			t.Errorf("tickets %d and %d", first, second)
		}
		wait(10 * time.Second)
		status := f.cleaner.Status(partition)
		if status.CleanNowAsked != 2 || status.CleanNowServed != 2 || status.RunningPass != nil ||
			status.LastPass == nil {
			t.Fatalf("after the request: %+v", status)
		}
		pass := *status.LastPass
		if pass.Trigger != triggerRequested || *pass.Ended < pass.Began {
			t.Errorf("last pass %+v, want one by request that has ended", pass)
		}
		if pass.Result != runSuccess || pass.Error != "" {
			t.Errorf("last pass: result %v, error %q, want success", pass.Result, pass.Error)
		}
		if pass.RemovedRecords != 95 || pass.RewrittenSegments == 0 {
			t.Errorf("last pass removed %d records in %d segments, want 95", pass.RemovedRecords,
				pass.RewrittenSegments)
		}
		if pass.ReclaimedBytes != status.ReclaimedBytes {
			t.Errorf("last pass freed %d bytes, want %d", pass.ReclaimedBytes, status.ReclaimedBytes)
		}
		if n := f.latest(latest); n != 5 {
			t.Errorf(
				"%d records are left of 5 keys; the pass includes the active segment and leaves no garbage",
				n,
			)
		}
		if status.Runs[runSuccess] != 1 {
			t.Errorf("runs %v, want one for two requests", status.Runs)
		}

		f.cleanNow() // the log has no dirty section
		wait(10 * time.Second)
		if status := f.cleaner.Status(partition); status.CleanNowServed != 3 ||
			status.LastPass.Result != runNothingToDo {
			t.Errorf("a request of a clean log: %+v, pass %+v", status, status.LastPass)
		}
	})
}

// TestRequestKeepsMinLag checks that a requested pass does not compact segments that minLag blocks.
// CleanNow fails if the cleaner has no worker slots, or if the log does not exist or is not
// compacted.
func TestRequestKeepsMinLag(t *testing.T) {
	inBubble(t, compacted(func(s *topicconfig.Settings) {
		s.MinDirtyPercent, s.MinLag = 100, time.Hour
	}), Options{},
		func(t *testing.T, f *fixture) {
			keys, _ := updatesOf(100, 5)
			f.put(keys...)
			f.cleanNow()
			wait(time.Minute)
			status := f.cleaner.Status(partition)
			if status.CleanNowServed != 1 || status.LastPass.Result != runNothingToDo ||
				status.Reason != reasonMinLagNotReached {
				t.Errorf("%+v, pass %+v", status, status.LastPass)
			}
			f.cleaner.Configure(Options{Workers: -1})
			if _, err := f.cleaner.CleanNow(partition); !errors.Is(err, ErrDisabled) {
				t.Errorf("without workers: %v", err)
			}
			if _, err := f.cleaner.CleanNow(logstore.PartitionID{Topic: "none"}); !errors.Is(err,
				ErrUnknownPartition) {
				t.Errorf("missing log: %v", err)
			}
			f.log.Configure(topicconfig.Default(), true)
			if _, err := f.cleaner.CleanNow(partition); !errors.Is(err, ErrNotCompacted) {
				t.Errorf("log that is not compacted: %v", err)
			}
		})
}

// TestRequestIsServedByFailedPass checks a requested pass that fails. Its request is served, and
// the status contains the error. The next request starts a pass despite the quarantine.
func TestRequestIsServedByFailedPass(t *testing.T) {
	inBubble(t, manual(), Options{}, func(t *testing.T, f *fixture) {
		keys, _ := updatesOf(100, 5)
		f.put("kept")
		f.put(keys...)
		wait(20 * time.Second)
		f.flipBit(f.log, 0)
		registry := prometheus.NewRegistry()
		registry.MustRegister(f.cleaner.Collector(nil))
		for round := range int64(2) {
			f.cleanNow()
			wait(10 * time.Second)
			status := f.cleaner.Status(partition)
			if status.CleanNowServed != round+1 || status.LastPass.Result != runFailed ||
				status.LastPass.Error == "" || status.Reason != reasonQuarantined {
				t.Fatalf("%+v, pass %+v", status, status.LastPass)
			}
			if value, n := total(t, registry, "heartwood_cleaner_reason"); value != 1 || n != 1 {
				t.Errorf("%d series of the reason, want 1", n)
			}
			if value, _ := total(t, registry, "heartwood_cleaner_reason",
				"Quarantined"); value != 1 {
				t.Error("the metric does not report the reason Quarantined")
			}
		}
	})
}
