package summary

import (
	"fmt"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Explanation contains the texts that explain a reason of condition Compacting: why a log is
// compacted now, or why not. The operator, the commands, the console and the documents use them.
type Explanation struct {
	Reason string
	// Condition is the text for the condition's message. Manual is the text for docs/use/http.md.
	Condition, Manual string
	// Why returns the sentence for kubectl heartwood why, with the deciding numbers. Short returns a
	// shorter version for the console.
	Why, Short func(Facts) string
	// Kept describes the dirty records that a pass does not clean. It is "" if a pass cleans all of
	// them.
	Kept string
	// BlockedBy is the value of report.Segment.BlockedBy for segments that cannot be cleaned for this
	// reason, and Segment is the explanation of this value. Both are "" if there are no such segments.
	BlockedBy, Segment string
}

// Facts contains the numbers of a replica in an explanation, formatted for its reader.
type Facts struct {
	Phase, Done, Left string // running pass; Left "": unknown
	Trigger           string
	Dirty, MinDirty   string // ratio of dirty bytes, and the ratio above which a pass starts
	Garbage           string // garbage among the dirty bytes
	Active            string // dirty bytes in the active segment
	MinLag            string
	Transaction       string // sentence about the open transaction
	Error             string // error of the last pass
}

// reasons contains the explanations of condition Compacting's reasons, in order of precedence: the
// first reason that any partition reports is the topic's reason. Reasons that require action or
// waiting come before reasons why no pass is needed.
var reasons = []Explanation{
	{
		Reason:    v1alpha1.ReasonQuarantined,
		Condition: "The last cleaning pass failed and is retried with backoff",
		Manual:    "the last pass failed; it is retried with backoff",
		Why:       func(f Facts) string { return "the last pass failed and is retried: " + f.Error },
		Short:     func(f Facts) string { return "the last pass failed: " + f.Error },
		BlockedBy: "quarantined",
		Segment:   "the last pass failed and is retried with backoff",
	},
	{
		Reason:    v1alpha1.ReasonCleaning,
		Condition: "A cleaning pass is running",
		Manual:    "a pass is running",
		Why:       runningPass,
		Short:     always("Cleaning"),
	},
	{
		Reason:    v1alpha1.ReasonQueued,
		Condition: "A cleaning pass is due and waits for a worker slot",
		Manual:    "a pass is due and waits for a worker slot",
		Why: func(f Facts) string {
			return "a pass is due (" + f.Trigger + ") and waits for a worker slot"
		},
		Short: always("Queued"),
	},
	{
		Reason:    v1alpha1.ReasonBlockedByOpenTransaction,
		Condition: "An open transaction blocks compaction",
		Manual: "an open transaction blocks the cleaner. The Topic's message names the producer of " +
			"the oldest one, when it began, when its coordinator aborts it, and what it holds back",
		Why:   func(f Facts) string { return f.Transaction },
		Short: always("an open transaction blocks the dirty records"),
		Kept:  "records above an open transaction",

		BlockedBy: blockedByTransaction,
		Segment:   "an open transaction begins before its end",
	},
	{
		Reason: v1alpha1.ReasonCleanerDisabled,
		Condition: "The cleaner is disabled; to enable it, set spec.cleaner.workers of the " +
			"LogCluster",
		Manual: "the LogCluster has no cleaner workers",
		Why:    always("the cleaner is disabled: set spec.cleaner.workers of the LogCluster"),
		Short:  always("the LogCluster has no cleaner workers"),
	},
	{
		Reason:    v1alpha1.ReasonMinLagNotReached,
		Condition: "All records of the dirty section are younger than compaction.minLag",
		Manual:    "all dirty records are younger than `compaction.minLag`",
		Why: func(f Facts) string {
			return "all dirty records are younger than compaction.minLag (" + f.MinLag + ")"
		},
		Short: always("the dirty records are younger than minLag"),
		Kept:  "records younger than compaction.minLag",

		BlockedBy: "min_lag",
		Segment:   "its records are younger than compaction.minLag",
	},
	{
		Reason:    v1alpha1.ReasonBelowDirtyRatio,
		Condition: "The dirty ratio is below compaction.minDirtyPercent",
		Manual:    "the dirty ratio is below `compaction.minDirtyPercent`",
		Why: func(f Facts) string {
			return fmt.Sprintf("%s of the cleanable bytes are dirty; a pass starts above %s "+
				"(compaction.minDirtyPercent)", f.Dirty, f.MinDirty)
		},
		Short: func(f Facts) string { return f.Dirty + " dirty, below the dirty ratio of the topic" },
	},
	{
		Reason:    v1alpha1.ReasonNothingToReclaim,
		Condition: "The dirty section contains too little garbage for a cleaning pass",
		Manual:    "the dirty ratio is reached, but the log has too little garbage for a pass",
		Why:       always("the log is dirty enough, but has too little garbage for a pass"),
		Short: func(f Facts) string {
			return f.Dirty + " dirty, but " + f.Garbage + " of it is garbage"
		},
	},
	{
		Reason:    v1alpha1.ReasonUnknown,
		Condition: "The garbage of the dirty section is not estimated yet",
		Manual: "the dirty ratio is reached, and the garbage, which decides on a pass, is not " +
			"estimated yet: for about a second after a segment was sealed, and while key sidecars are " +
			"built. For Topics also: no broker has responded",
		Why:   always("the log is dirty enough; its garbage is not estimated yet"),
		Short: func(f Facts) string { return f.Dirty + " dirty; the garbage is not estimated yet" },
	},
	{
		Reason:    v1alpha1.ReasonActiveSegmentOnly,
		Condition: "Only the active segment is dirty",
		Manual:    "all dirty records are in the active segment",
		Why: func(f Facts) string {
			return "all " + f.Active + " of dirty records are in the active segment; kubectl " +
				"heartwood clean rolls it"
		},
		Short: always("only the active segment is dirty"),

		BlockedBy: "active_segment",
		Segment:   "it is the active segment, which takes appends",
	},
	{
		Reason:    v1alpha1.ReasonUpToDate,
		Condition: "The log is clean",
		Manual:    "nothing is dirty",
		Why:       always("no record is dirty"),
		Short:     always("nothing is dirty"),
	},
}

// Explain returns the explanation of a reason. It returns false for an unknown reason of a newer
// version.
func Explain(reason string) (Explanation, bool) {
	for _, known := range reasons {
		if known.Reason == reason {
			return known, true
		}
	}
	return Explanation{}, false
}

// Unreplicated records prevent a segment from being cleaned, but are no reason of the condition.
const (
	unreplicated     = "unreplicated"
	unreplicatedText = "its records are not on all in-sync replicas yet"
)

// ExplainSegment returns the explanation of a value of report.Segment.BlockedBy: why the segment
// cannot be cleaned now. It returns false for an unknown value of a newer version.
func ExplainSegment(blockedBy string) (string, bool) {
	if blockedBy == unreplicated {
		return unreplicatedText, true
	}
	for _, known := range reasons {
		if known.BlockedBy != "" && known.BlockedBy == blockedBy {
			return known.Segment, true
		}
	}
	return "", false
}

func always(text string) func(Facts) string { return func(Facts) string { return text } }

func runningPass(f Facts) string {
	text := fmt.Sprintf("a pass is %s, %s done", f.Phase, f.Done)
	if f.Left != "" {
		text += ", about " + f.Left + " left"
	}
	return text
}
