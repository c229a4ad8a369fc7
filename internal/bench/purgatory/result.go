package purgatory

import (
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"sync/atomic"
	"time"
)

// Result is the outcome of a run. Scripts depend on the JSON names.
type Result struct {
	Kind       string `json:"kind"`
	Requests   int    `json:"requests"`
	TargetRate int    `json:"target_rate"` // requests per second; 0: as fast as possible
	// AchievedRate is the number of requests per second from the first to the last arrival.
	AchievedRate float64 `json:"achieved_rate"`
	Completed    int64   `json:"completed"` // number of requests that the completer completed
	Expired      int64   `json:"expired"`   // number of requests whose timeout expired
	// CPUSeconds is the user and system time of the process, from the first arrival until all
	// requests have ended.
	CPUSeconds float64 `json:"cpu_seconds"`
	// ElapsedSeconds is the time from the first arrival until all requests have ended.
	ElapsedSeconds float64 `json:"elapsed_seconds"`
	// PeakMemoryBytes is the largest resident set of the process since its start, including the
	// pages of the binary.
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	// GCPausesMs is the total time of the garbage collector's stop-the-world pauses.
	GCPausesMs float64 `json:"gc_pauses_ms"`
	// The lateness of an expired request is the time from its deadline to the call of its Expire
	// method. The three figures are 0 if no request expired.
	LatenessP50Ms float64 `json:"lateness_p50_ms"`
	LatenessP99Ms float64 `json:"lateness_p99_ms"`
	LatenessMaxMs float64 `json:"lateness_max_ms"`
	// Early is the number of requests that expired before their deadline. A value above 0 shows a
	// fault of the purgatory.
	Early int64 `json:"early"`
}

// Print writes the result as text with one value per line, or as one JSON object.
func (r Result) Print(out io.Writer, asJSON bool) error {
	encoded, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	if asJSON {
		_, err = fmt.Fprintf(out, "%s\n", encoded)
		return err
	}
	for _, line := range []struct {
		name, format string
		value        any
	}{
		{"kind", "%s", r.Kind},
		{"requests", "%d", r.Requests},
		{"target_rate", "%d", r.TargetRate},
		{"achieved_rate", "%.0f", r.AchievedRate},
		{"completed", "%d", r.Completed},
		{"expired", "%d", r.Expired},
		{"cpu_seconds", "%.3f", r.CPUSeconds},
		{"elapsed_seconds", "%.3f", r.ElapsedSeconds},
		{"peak_memory_bytes", "%d", r.PeakMemoryBytes},
		{"gc_pauses_ms", "%.3f", r.GCPausesMs},
		{"lateness_p50_ms", "%.3f", r.LatenessP50Ms},
		{"lateness_p99_ms", "%.3f", r.LatenessP99Ms},
		{"lateness_max_ms", "%.3f", r.LatenessMaxMs},
		{"early", "%d", r.Early},
	} {
		if _, err := fmt.Fprintf(out, "%-18s "+line.format+"\n", line.name,
			line.value); err != nil {
			return err
		}
	}
	return nil
}

const (
	// stepBits determines the precision of the histogram. The first set bit of a duration and the
	// stepBits bits after it select a counter, so a counter covers a range of at most 1/32 of its
	// values.
	stepBits = 5
	counters = (64 - stepBits) << stepBits
)

// histogram counts durations. Several goroutines may call add at the same time. A quantile is the
// longest duration in a counter's range, so it is at most 1/32 too high.
type histogram struct {
	counts  [counters]atomic.Int64
	highest atomic.Int64
}

// add counts a duration d >= 0.
func (h *histogram) add(d time.Duration) {
	h.counts[counter(d)].Add(1)
	for {
		highest := h.highest.Load()
		if int64(d) <= highest || h.highest.CompareAndSwap(highest, int64(d)) {
			return
		}
	}
}

// counter returns the index of the counter for a duration.
func counter(d time.Duration) int {
	shift := max(bits.Len64(uint64(d))-stepBits-1, 0)
	return shift<<stepBits + int(d>>shift)
}

// upper returns the longest duration that a counter counts.
func upper(counter int) time.Duration {
	shift := max(counter>>stepBits-1, 0)
	return time.Duration(counter-shift<<stepBits+1)<<shift - 1
}

// quantile returns the q-quantile, 0 <= q <= 1. It returns 0 if no duration was counted.
func (h *histogram) quantile(q float64) time.Duration {
	total := int64(0)
	for i := range h.counts {
		total += h.counts[i].Load()
	}
	rank, seen := max(int64(q*float64(total)+0.5), 1), int64(0)
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= rank {
			return min(upper(i), time.Duration(h.highest.Load()))
		}
	}
	return 0
}
