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

// phases a partition may be in, the busiest last: api/report names them. One that is not here, as a
// newer broker may give, counts as idle.
var phases = []string{"idle", "queued", "indexing", "deduplicating", "rewriting", "committing"}

// phaseRunning is the first phase in which a pass runs.
var phaseRunning = slices.Index(phases, "indexing")

// Rows are what brokers reported of one topic, in any order; At is when they were asked.
type Rows struct {
	Replicas []report.Partition
	At       time.Time
}

// leaders leaves out partitions whose broker does not know yet that the topic is compacted, and
// copies.
func (r Rows) leaders() []*report.Compaction {
	var leaders []*report.Compaction
	for _, row := range r.Replicas {
		if row.Leader && row.Compaction != nil {
			leaders = append(leaders, row.Compaction)
		}
	}
	return leaders
}

// Compaction is the status without CleanNow; nil if no leader reported. Dirty is the largest share,
// not the mean: one partition that is never cleaned would vanish among clean ones.
//
// All is rounded to what the API keeps (whole percents, whole seconds) or coarser: a finer value
// would differ from the one that was read back, and be written anew in every round.
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

// running is how far the passes that run are, each weighed alike, and when the last of them ends;
// nil while none runs. The end is unknown while that of any is.
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

// etaMax is beyond what anybody waits for: a pass that has hardly begun, or nonsense.
const etaMax = 10000 * time.Hour

// roundEnd is at + left, rounded up by what does not matter yet: the sooner the end, the finer. A
// pass that keeps its pace has the same end in each report.
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

// timeOf is a time of a report, cut to the whole seconds that the API keeps; nil for none.
func timeOf(seconds *float64) *metav1.Time {
	if seconds == nil || !(math.Abs(*seconds) < 1<<40) { // NaN is not
		return nil
	}
	return &metav1.Time{Time: time.Unix(int64(*seconds), 0).UTC()}
}

// percent is a ratio as a person reads it. A broker's nonsense stays within 0 to 100; NaN is 0, as
// what it converts to is the machine's choice.
func percent(ratio float64) int32 {
	if math.IsNaN(ratio) {
		return 0
	}
	return int32(math.Round(100 * min(max(ratio, 0), 1)))
}

// reclaimable adds up what a clean would free; nil while any partition does not know, as the sum of
// the others would look like the whole. In bytes.
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

// roundBits is to how many binary digits sizes are rounded: at most 1.6 percent off, and a power of
// two stays one.
const roundBits = 5

func roundBytes(n int64) int64 {
	shift := max(0, bits.Len64(uint64(n))-roundBits)
	half := int64(1) << shift >> 1
	if n > math.MaxInt64-half {
		return n
	}
	return (n + half) >> shift << shift
}
