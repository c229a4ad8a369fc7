package plan

import (
	"fmt"
	"math"
)

// ceil is math.Ceil, but for what is a whole number up to the error of a division.
func ceil(x float64) float64 { return math.Ceil(x - 1e-9*x) }

// notes are the limits that apply to a plan, for a person to read: each says what, and what to do.
func notes(p Plan, m model) []string {
	in := p.Input
	all := []string{}
	note := func(applies bool, format string, args ...any) {
		if applies {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	segment := size(in.SegmentBytes)
	note(
		m.live < in.SegmentBytes,
		"A partition has %s of live records, and its active segment, which is never cleaned, grows to %s: garbage stays until it rolls. "+
			"Set segment.size below the live size, or segment.maxAge.",
		size(m.live),
		segment,
	)
	note(
		p.BusyShare > 1,
		"The cleaner falls behind: its passes need %.0f %% of the I/O rate. Raise ioRate, minDirtyPercent or the number of brokers.",
		p.BusyShare*100,
	)
	note(
		p.Memory.Windows > 1,
		"The bits for the records of a partition do not fit the memory of a worker, so each pass reads the sidecars %.0f times; %s would do.",
		p.Memory.Windows,
		size(math.Ceil(p.Memory.BitmapBytes/bitmapShare)*float64(in.Workers)),
	)
	note(
		m.temporary,
		"Records take less than %d B on disk: their sidecars are made by each pass, from the whole log, and removed after it.",
		sidecarLeastBytes,
	)
	note(
		in.SegmentBytes/m.stored > 1<<30,
		"A segment would hold more than 2^30 records, and has no sidecar then: its keys are not known, and it is kept as it is.",
	)
	note(
		in.Replicas > 1,
		"Every replica cleans its own copy; the I/O of the topic is that of all copies.",
	)
	note(
		in.HotShare == 1 && in.UpdateRate > 0,
		"All keys are taken to be as likely as any other. If updates favour some of them, say so with --hot-keys: a pass then costs less.",
	)
	return all
}
