package purgatory

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// usual are the options of the low timeout case, small.
func usual() Options {
	return Options{
		Kind: "purgatory", Requests: 5000, Rate: 20_000, Timeout: 200 * time.Millisecond,
		Median: 20 * time.Millisecond, Quartile: 60 * time.Millisecond, Size: 100, Keys: 3,
		OfKeys: 100, Seed: 1,
	}
}

// TestEveryKindEndsEveryRequest in a bubble: its clock stands still while anything runs, so rate,
// ends and lateness are exact.
func TestEveryKindEndsEveryRequest(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := usual()
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
				// What would complete in the last milliseconds before its timeout may lose against
				// it.
				if result.Completed+result.Expired != int64(opts.Requests) ||
					result.Expired < expiring || result.Expired > expiring+expiring/20 {
					t.Errorf("%d completed, %d expired; %d have latencies beyond the timeout",
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

// TestAsFastAsPossible runs on the real clock: nothing is asked of the time it takes.
func TestAsFastAsPossible(t *testing.T) {
	for _, kind := range Kinds() {
		opts := usual()
		opts.Kind, opts.Rate, opts.Requests, opts.Timeout = kind, 0, 20_000, 50*time.Millisecond
		result, err := Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if result.Completed+result.Expired != int64(opts.Requests) || result.Early != 0 {
			t.Errorf("%s: %+v", kind, result)
		}
		if result.CPUSeconds <= 0 || result.ElapsedSeconds <= 0 {
			t.Errorf("%s: nothing was measured: %+v", kind, result)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	for _, kind := range Kinds() {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			opts := usual()
			opts.Kind = kind
			if _, err := Run(ctx, opts); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", kind, err)
			}
		})
	}
}

// TestCalendarKeepsWhatIsForALaterRound: a completer that lags must not complete early what falls
// on the same day of the ring.
func TestCalendarKeepsWhatIsForALaterRound(t *testing.T) {
	c := newCalendar(10 * time.Millisecond)
	round := time.Duration(len(c.days)) * dayLength
	now, later := &request{completesAt: 3*dayLength + 1}, &request{completesAt: 3*dayLength + round}
	c.add(later)
	c.add(now)
	if due := c.take(2, nil); len(due) != 0 {
		t.Errorf("day 2 yields %d", len(due))
	}
	if due := c.take(3, nil); len(due) != 1 || due[0] != now {
		t.Errorf("day 3 yields %d", len(due))
	}
	if due := c.take(3+len(c.days), nil); len(due) != 1 || due[0] != later {
		t.Errorf("the next round yields %d", len(due))
	}
}

func TestValidateTellsEachFault(t *testing.T) {
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
		opts := usual()
		if err := opts.Validate(); err != nil {
			t.Fatalf("usual options: %v", err)
		}
		change(&opts)
		if err := opts.Validate(); err == nil || !strings.Contains(err.Error(), "for "+flag+":") {
			t.Errorf("%s: %v", flag, err)
		}
		if _, err := Run(t.Context(), opts); err == nil {
			t.Errorf("%s: run all the same", flag)
		}
	}
	if err := (Options{}).Validate(); strings.Count(err.Error(), "\n") < 6 {
		t.Errorf("not all faults at once: %v", err)
	}
}
