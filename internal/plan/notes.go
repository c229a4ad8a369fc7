package plan

import (
	"fmt"
	"math"
)

// ceil is like math.Ceil, but tolerates a rounding error of the argument: it does not round up if
// the argument is only slightly above an integer.
func ceil(x float64) float64 { return math.Ceil(x - 1e-9*x) }

// notes returns sentences for the reader of a plan: limits that apply, and how to avoid them.
func notes(p Plan, m model) []string {
	in := p.Input
	all := []string{}
	note := func(applies bool, format string, args ...any) {
		if applies {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	segment := size(in.SegmentBytes)
	note(m.live < in.SegmentBytes,
		"A partition has %s of live records, less than its active segment, which grows to %s and is "+
			"not cleaned: garbage remains until the segment rolls. Set segment.size below the live "+
			"size, or set segment.maxAge.",
		size(m.live), segment)
	note(p.BusyShare > 1,
		"The cleaner falls behind: its passes need %.0f %% of the I/O rate. Raise ioRate, "+
			"minDirtyPercent or the number of brokers.",
		p.BusyShare*100)
	note(p.Memory.Windows > 1,
		"The bitmaps of a partition exceed the memory of a worker, so each pass reads the sidecars "+
			"%.0f times. A memory of %s avoids this.",
		p.Memory.Windows,
		size(math.Ceil(p.Memory.BitmapBytes/bitmapShare)*float64(in.Workers)))
	note(m.temporary,
		"Records take less than %d B on disk: each pass writes their sidecars from the whole log, and "+
			"deletes them afterwards.",
		sidecarLeastBytes)
	note(in.SegmentBytes/m.stored > 1<<30,
		"A segment with more than 2^30 records has no sidecar, so its keys are unknown and it is not "+
			"cleaned. Lower segment.size.")
	note(in.Replicas > 1,
		"Every replica cleans its own copy; the I/O of the topic is that of all replicas.")
	note(in.HotShare == 1 && in.UpdateRate > 0,
		"The plan assumes that all keys are updated equally often. If updates prefer some keys, set "+
			"--hot-keys: passes cost less then.")
	return all
}
