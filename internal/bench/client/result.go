package client

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"syscall"
	"time"
)

// errorKindsMax bounds the number of distinct errors in a result.
const errorKindsMax = 20

// Result is the outcome of a measurement.
type Result struct {
	Way     string `json:"way"` // "produce" or "consume"
	Topic   string `json:"topic"`
	Clients int    `json:"clients"`

	Records int64 `json:"records"` // number of records that were acknowledged, or read
	// uncompressed size of the keys and values of these records
	Bytes  int64            `json:"bytes"`
	Failed int64            `json:"failed"` // number of records that were not acknowledged
	Errors map[string]int64 `json:"errors,omitempty"`
	// WallSeconds is the time from the start of the run to the last acknowledgment, record or
	// commit.
	WallSeconds   float64  `json:"wallSeconds"`
	RecordsSecond float64  `json:"recordsPerSecond"`
	MBs           float64  `json:"MBs"`        // 10^6 bytes per second
	CPUSeconds    float64  `json:"cpuSeconds"` // user and system time of this process
	Latency       *Latency `json:"latency,omitempty"`
	// Transactions is the number of committed transactions. Commit is the distribution of the time
	// from a transaction's last record to the response to its commit.
	Transactions int64    `json:"transactions,omitempty"`
	Commit       *Latency `json:"commit,omitempty"`
}

// Latency describes the distribution of the time from when a record is due until it is acknowledged
// (produce) or read (consume).
type Latency struct {
	Records int64   `json:"records"` // number of records, or of commits, whose latency was measured
	P50     float64 `json:"p50Millis"`
	P99     float64 `json:"p99Millis"`
	P999    float64 `json:"p999Millis"`
	Max     float64 `json:"maxMillis"`
}

// set computes the result from the clients' tallies and the run's times.
func (r *Result) set(parts []*tally, wall, cpu time.Duration) {
	var all, commits histogram
	r.Errors = map[string]int64{}
	for _, part := range parts {
		r.Records += part.records
		r.Bytes += part.bytes
		r.Failed += part.failed
		for name, n := range part.errors {
			r.Errors[name] += n
		}
		all.merge(&part.latency)
		r.Transactions += part.transactions
		commits.merge(&part.commits)
	}
	r.WallSeconds, r.CPUSeconds = wall.Seconds(), cpu.Seconds()
	if wall > 0 {
		r.RecordsSecond, r.MBs = float64(r.Records)/wall.Seconds(),
			float64(r.Bytes)/1e6/wall.Seconds()
	}
	r.Latency, r.Commit = latencyOf(&all), latencyOf(&commits)
}

// latencyOf returns the latency distribution in a histogram, or nil if the histogram is empty.
func latencyOf(all *histogram) *Latency {
	if all.count == 0 {
		return nil
	}
	return &Latency{
		Records: all.count, P50: millis(all.quantile(.5)), P99: millis(all.quantile(.99)),
		P999: millis(all.quantile(.999)), Max: millis(all.longest),
	}
}

func millis(d time.Duration) float64 { return float64(d) / 1e6 }

// Print writes the result as text or as one JSON object.
func (r *Result) Print(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	_, err := fmt.Fprintf(out, `%s        %d records, %.1f MB in %.2f s by %d clients
throughput     %.0f records/s, %.2f MB/s
client CPU     %.2f s, %.3f us per record
`, r.Way, r.Records, float64(r.Bytes)/1e6, r.WallSeconds, r.Clients, r.RecordsSecond, r.MBs,
		r.CPUSeconds, r.CPUSeconds*1e6/float64(max(1, r.Records)))
	if err == nil && r.Latency != nil {
		_, err = fmt.Fprintf(out,
			"latency        p50 %.3f ms, p99 %.3f ms, p99.9 %.3f ms, max %.3f ms, of %d records\n",
			r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max, r.Latency.Records)
	}
	if err == nil && r.Commit != nil {
		_, err = fmt.Fprintf(out,
			"transactions   %d, commit p50 %.3f ms, p99 %.3f ms, p99.9 %.3f ms, max %.3f ms\n",
			r.Transactions, r.Commit.P50, r.Commit.P99, r.Commit.P999, r.Commit.Max)
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "failed         %d records\n", r.Failed)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Errors)) {
		if err == nil {
			_, err = fmt.Fprintf(out, "error          %d times: %s\n", r.Errors[name], name)
		}
	}
	return err
}

// tally contains the counts of one client. Only one goroutine uses it at a time.
type tally struct {
	records, bytes, failed int64
	transactions           int64 // committed ones
	latency, commits       histogram
	errors                 map[string]int64
	last                   time.Time // time of the last acknowledgment, record or commit
}

func newTally() *tally { return &tally{errors: map[string]int64{}} }

// addError counts an error by its text.
func (t *tally) addError(err error) {
	name := err.Error()
	if _, known := t.errors[name]; !known && len(t.errors) >= errorKindsMax {
		name = "other errors"
	}
	t.errors[name]++
}

// lastEvent returns the time of the last acknowledgment, record or commit of any client. If there
// was none, it returns the time begin.
func lastEvent(parts []*tally, begin time.Time) time.Time {
	for _, part := range parts {
		if part.last.After(begin) {
			begin = part.last
		}
	}
	return begin
}

// processTime returns the user and system time of the process so far.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
