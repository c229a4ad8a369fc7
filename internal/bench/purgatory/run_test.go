package purgatory

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// smallLoad returns the options for the low-timeout case in docs/internals/bench/purgatory.md, but
// with few requests.
func smallLoad() Options {
	return Options{
		Kind: "purgatory", Requests: 5000, Rate: 20_000, Timeout: 200 * time.Millisecond,
		Median: 20 * time.Millisecond, Quartile: 60 * time.Millisecond, Size: 100, Keys: 3,
		OfKeys: 100, Seed: 1,
	}
}

// TestAllRequestsEnd runs every kind with a simulated clock. In a synctest bubble time advances
// only while all goroutines are blocked, so the rate, the number of expired requests and the
// lateness are exact.
func TestAllRequestsEnd(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := smallLoad()
				opts.Kind = kind
				result, err := Run(t.Context(), opts)
				if err != nil {
					t.Fatal(err)
				}
				expiring := int64(0)
				for _, latency := range draw(opts).latencies[:opts.Requests] {
					if latency >= opts.Timeout {
						expiring++
					}
				}
				// A request that is due to complete in the last milliseconds before its timeout can expire
				// instead.
				if result.Completed+result.Expired != int64(opts.Requests) ||
					result.Expired < expiring || result.Expired > expiring+expiring/20 {
					t.Errorf("%d completed, %d expired; %d have latencies above the timeout",
						result.Completed, result.Expired, expiring)
				}
				if math.Abs(result.AchievedRate/float64(opts.Rate)-1) > 0.05 {
					t.Errorf("rate %.0f, want %d", result.AchievedRate, opts.Rate)
				}
				if result.Early != 0 || result.LatenessMaxMs > 2 {
					t.Errorf("%d early, latest %v ms", result.Early, result.LatenessMaxMs)
				}
				if result.PeakMemoryBytes < 1<<20 {
					t.Errorf("peak memory %d", result.PeakMemoryBytes)
				}
			})
		})
	}
}

// TestRateZeroSendsAsFastAsPossible runs on the real clock, so it makes no assumption about
// durations.
func TestRateZeroSendsAsFastAsPossible(t *testing.T) {
	for _, kind := range Kinds() {
		opts := smallLoad()
		opts.Kind, opts.Rate, opts.Requests, opts.Timeout = kind, 0, 20_000, 50*time.Millisecond
		opts.Done = new(atomic.Int64)
		result, err := Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if result.Completed+result.Expired != int64(opts.Requests) || result.Early != 0 {
			t.Errorf("%s: %+v", kind, result)
		}
		if done := opts.Done.Load(); done <= 20_000-1024 || done > 20_000 {
			t.Errorf("%s: %d requests were counted", kind, done)
		}
		if result.CPUSeconds <= 0 || result.ElapsedSeconds <= 0 {
			t.Errorf("%s: no CPU or elapsed time was measured: %+v", kind, result)
		}
	}
}

func TestRunReturnsWhenItsContextEnds(t *testing.T) {
	for _, kind := range Kinds() {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			opts := smallLoad()
			opts.Kind = kind
			if _, err := Run(ctx, opts); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", kind, err)
			}
		})
	}
}

// TestScheduleKeepsRequestsOfLaterRounds adds two requests to the same bucket: the second one
// completes a whole round of the ring later. When the completer empties the bucket, it must take
// only the first one.
func TestScheduleKeepsRequestsOfLaterRounds(t *testing.T) {
	s := newSchedule(10 * time.Millisecond)
	round := time.Duration(len(s.buckets)) * resolution
	now, later := &request{completesAt: 3*resolution + 1},
		&request{completesAt: 3*resolution + round}
	s.add(later)
	s.add(now)
	if due := s.take(2, nil); len(due) != 0 {
		t.Errorf("bucket 2 has %d due requests, want none", len(due))
	}
	if due := s.take(3, nil); len(due) != 1 || due[0] != now {
		t.Errorf("bucket 3 has %d due requests, want the earlier one", len(due))
	}
	if due := s.take(3+len(s.buckets), nil); len(due) != 1 || due[0] != later {
		t.Errorf("the next round has %d due requests, want the later one", len(due))
	}
}

func TestValidateNamesTheFlagOfEachFault(t *testing.T) {
	for flag, change := range map[string]func(*Options){
		"--kind":     func(o *Options) { o.Kind = "sundial" },
		"--requests": func(o *Options) { o.Requests = 0 },
		"--rate":     func(o *Options) { o.Rate = -1 },
		"--timeout":  func(o *Options) { o.Timeout = time.Hour },
		"--pct50":    func(o *Options) { o.Median = 0 },
		"--pct75":    func(o *Options) { o.Quartile = o.Median },
		"--size":     func(o *Options) { o.Size = -1 },
		"--keys":     func(o *Options) { o.Keys = o.OfKeys + 1 },
		"--of-keys":  func(o *Options) { o.Keys, o.OfKeys = 1, 0 },
	} {
		opts := smallLoad()
		if err := opts.Validate(); err != nil {
			t.Fatalf("valid options: %v", err)
		}
		change(&opts)
		if err := opts.Validate(); err == nil || !strings.Contains(err.Error(), "for "+flag+":") {
			t.Errorf("%s: %v", flag, err)
		}
		if _, err := Run(t.Context(), opts); err == nil {
			t.Errorf("%s: Run accepted invalid options", flag)
		}
	}
	if err := (Options{}).Validate(); strings.Count(err.Error(), "\n") < 6 {
		t.Errorf("not all faults were reported at once: %v", err)
	}
}

func TestValidateExplainsRemovedKinds(t *testing.T) {
	opts := smallLoad()
	opts.Kind = "heap"
	if err := opts.Validate(); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("--kind heap: %v", err)
	}
}
