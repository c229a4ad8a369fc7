package summary

import (
	"fmt"
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

// phases are the phases of a partition in ascending order of activity; api/report defines them. An
// unknown phase, as of a newer broker, counts as idle.
var phases = []string{"idle", "queued", "indexing", "deduplicating", "rewriting", "committing"}

// phaseRunning is the first phase in which a pass runs.
var phaseRunning = slices.Index(phases, "indexing")

// Rows are the brokers' reports on one topic, in any order. At is when they were read.
type Rows struct {
	Replicas []report.Partition
	At       time.Time
}

// leaders returns the reports of leaders. It omits followers, and partitions whose broker does not
// know yet that the topic is compacted.
func (r Rows) leaders() []*report.Compaction {
	var leaders []*report.Compaction
	for _, row := range r.Replicas {
		if row.Leader && row.Compaction != nil {
			leaders = append(leaders, row.Compaction)
		}
	}
	return leaders
}

// Compaction returns the status without CleanNow, or nil if no leader reported. Dirty is the
// largest ratio, not the mean: in a mean, a partition that is never cleaned would not show among
// clean ones.
//
// All values are rounded to what the API stores (whole percents, whole seconds) or coarser: a finer
// value would differ from the one that was read back and would be written again in every round.
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
		Dirty:       fmt.Sprintf("%d%%", percent(dirty)),
		Reclaimable: reclaimable(leaders),
		Phase:       strings.ToUpper(phases[busiest][:1]) + phases[busiest][1:],
		LastCleaned: timeOf(oldest),
	}
	status.ProgressPercent, status.ETA = running(leaders, rows.At)
	return status
}

// running returns the mean progress of the running passes and the estimated end of the last one;
// nil while none is running. The end is nil while that of any pass is unknown.
func running(leaders []*report.Compaction, at time.Time) (progress *int32, eta *metav1.Time) {
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
	if longest >= 0 && longest <= etaMax.Seconds() { // NaN is neither
		eta = roundEnd(at, time.Duration(longest*float64(time.Second)))
	}
	return new(percent(sum / float64(count))), eta
}

// etaMax is the longest remaining time that is reported. A longer one comes from a pass that has
// just started, or is invalid.
const etaMax = 10000 * time.Hour

// roundEnd returns at + left, rounded up: the sooner the end, the finer. A pass that progresses
// steadily therefore has the same end in each report.
func roundEnd(at time.Time, left time.Duration) *metav1.Time {
	step := 10 * time.Second
	switch {
	case left > time.Hour:
		step = 10 * time.Minute
	case left > 5*time.Minute:
		step = time.Minute
	}
	end := at.Add(left)
	rounded := end.Truncate(step)
	if rounded.Before(end) {
		rounded = rounded.Add(step)
	}
	return &metav1.Time{Time: rounded.UTC()}
}

// timeOf returns a time of a report, truncated to the whole seconds that the API stores; nil if
// there is none.
func timeOf(seconds *float64) *metav1.Time {
	if seconds == nil || !(math.Abs(*seconds) < 1<<40) { // NaN is not
		return nil
	}
	return &metav1.Time{Time: time.Unix(int64(*seconds), 0).UTC()}
}

// percent returns a ratio in whole percents, 0 to 100 even for an invalid ratio. NaN is 0, as its
// conversion to an integer depends on the platform.
func percent(ratio float64) int32 {
	if math.IsNaN(ratio) {
		return 0
	}
	return int32(math.Round(100 * min(max(ratio, 0), 1)))
}

// reclaimable returns the bytes that a clean would free, or nil while any partition does not know:
// the sum of the others would look like the total.
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

// roundBits is the number of binary digits to which sizes are rounded: the error is at most 1.6
// percent, and a power of two is exact.
const roundBits = 5

func roundBytes(n int64) int64 {
	shift := max(0, bits.Len64(uint64(n))-roundBits)
	half := int64(1) << shift >> 1
	if n > math.MaxInt64-half {
		return n
	}
	return (n + half) >> shift << shift
}
