package summary

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// phases are the values of report.Compaction.Phase, from the least to the most active. An unlisted
// phase, for example of a newer broker, counts as idle.
var phases = []string{"idle", "queued", "indexing", "deduplicating", "rewriting", "committing"}

// phaseRunning is the index of the first phase in which a pass runs.
var phaseRunning = slices.Index(phases, "indexing")

// Rows contains the brokers' reports on one topic, in any order, and the time At at which they were
// read.
type Rows struct {
	Replicas []report.Partition
	At       time.Time
}

// leaders returns the leaders' compaction reports. It omits followers, and rows without a
// compaction report. Such a row comes from a broker whose metadata does not show yet that the topic
// is compacted.
func (r Rows) leaders() []*report.Compaction {
	var leaders []*report.Compaction
	for _, row := range r.Replicas {
		if row.Leader && row.Compaction != nil {
			leaders = append(leaders, row.Compaction)
		}
	}
	return leaders
}

// Compaction returns the Topic's status.compaction without its field CleanNow, or nil if no leader
// reported. DirtyPercent is the largest dirty ratio of any partition: a mean over all partitions
// would hide a single partition that is never cleaned.
//
// All values are rounded at least to whole percents and whole seconds, as the API stores them. A
// value with more digits would always differ from the value that the API server returns, so the
// operator would write the status again and again.
func Compaction(rows Rows) *v1alpha1.CompactionStatus {
	leaders := rows.leaders()
	if len(leaders) == 0 {
		return nil
	}
	dirty, busiest := 0.0, 0
	var oldest *float64
	for _, leader := range leaders {
		dirty = max(dirty, leader.DirtyRatio)
		busiest = max(busiest, slices.Index(phases, leader.Phase))
		if leader.LastSuccess != nil && (oldest == nil || *leader.LastSuccess < *oldest) {
			oldest = leader.LastSuccess
		}
	}
	status := &v1alpha1.CompactionStatus{
		DirtyPercent:  new(percent(dirty)),
		Reclaimable:   reclaimable(leaders),
		Phase:         strings.ToUpper(phases[busiest][:1]) + phases[busiest][1:],
		LastCleanTime: timeOf(oldest),
	}
	status.ProgressPercent, status.EstimatedCompletionTime = running(leaders, rows.At)
	return status
}

// running returns the mean progress of the running passes, and the estimated time at which the last
// of them ends. Both are nil while no pass is running. The time is also nil if there is no estimate
// for a running pass.
func running(leaders []*report.Compaction, now time.Time) (progress *int32, eta *metav1.Time) {
	count, sum, longest := 0, 0.0, 0.0
	for _, leader := range leaders {
		if slices.Index(phases, leader.Phase) < phaseRunning {
			continue
		}
		count++
		sum += leader.ProgressRatio
		if leader.EtaSeconds == nil {
			longest = math.Inf(1)
		} else {
			longest = max(longest, *leader.EtaSeconds)
		}
	}
	if count == 0 {
		return nil, nil
	}
	if longest >= 0 && longest <= etaMax.Seconds() { // false for NaN
		eta = roundEnd(now, time.Duration(longest*float64(time.Second)))
	}
	done := percent(sum / float64(count))
	if sum < float64(count) {
		done = min(done, 99) // a chosen segment must still be rewritten
	}
	return &done, eta
}

// etaMax is the longest remaining time that is reported. A longer estimate is omitted, because its
// pass has just started or the value is invalid.
const etaMax = 10000 * time.Hour

// roundEnd returns the end of a pass, now + remaining, rounded up to 10 minutes, one minute or 10
// seconds. A shorter remaining time is rounded more finely. Because of the rounding, the reported
// end of a steady pass rarely changes.
func roundEnd(now time.Time, remaining time.Duration) *metav1.Time {
	step := 10 * time.Second
	switch {
	case remaining > time.Hour:
		step = 10 * time.Minute
	case remaining > 5*time.Minute:
		step = time.Minute
	}
	end := now.Add(remaining)
	rounded := end.Truncate(step)
	if rounded.Before(end) {
		rounded = rounded.Add(step)
	}
	return &metav1.Time{Time: rounded.UTC()}
}

// timeOf converts a report's time, in Unix seconds, and truncates it to the whole seconds that the
// API stores. It returns nil if the time is absent or invalid.
func timeOf(seconds *float64) *metav1.Time {
	if seconds == nil || !(math.Abs(*seconds) < 1<<40) { // also true for NaN
		return nil
	}
	return &metav1.Time{Time: time.Unix(int64(*seconds), 0).UTC()}
}

// percent converts a ratio to whole percents. The result is between 0 and 100 even for an invalid
// ratio. NaN becomes 0, because the conversion of NaN to an integer depends on the platform.
func percent(ratio float64) int32 {
	if math.IsNaN(ratio) {
		return 0
	}
	return int32(math.Round(100 * min(max(ratio, 0), 1)))
}

// reclaimable returns the number of bytes that a clean of all partitions would free. It returns nil
// while this number is unknown for any partition, because the sum over the other partitions would
// be mistaken for the total.
func reclaimable(leaders []*report.Compaction) *resource.Quantity {
	var sum int64
	for _, leader := range leaders {
		if leader.ReclaimableBytes == nil {
			return nil
		}
		sum += max(0, *leader.ReclaimableBytes)
	}
	return resource.NewQuantity(roundBytes(sum), resource.BinarySI)
}

// roundBits is the number of significant binary digits to which sizes are rounded. The error is at
// most 1/32, about 3 percent, and powers of two are exact.
const roundBits = 5

func roundBytes(n int64) int64 {
	shift := max(0, bits.Len64(uint64(n))-roundBits)
	half := int64(1) << shift >> 1
	if n > math.MaxInt64-half {
		return n
	}
	return (n + half) >> shift << shift
}
