package console

import (
	"strings"

	"heartwood.dev/heartwood/api/report"
)

// status says in a few words what the cleaner does with a partition, or why it does nothing.
type status struct {
	Head   string  // in bold
	Rest   string  // after Head, in the same line
	Detail string  // in the line below
	Ratio  float64 // progress, 0..1
	Bar    bool    // a pass runs, so Ratio is shown
	Tone   string  // "", "run", "wait" or "bad"
}

// phases are the words for report.Compaction.Phase while a pass runs.
var phases = map[string]string{
	"indexing": "Indexing keys", "deduplicating": "Comparing keys", "rewriting": "Rewriting",
	"committing": "Committing",
}

// triggers are the words for report.Pass.Trigger.
var triggers = map[string]string{
	report.TriggerMaxLag: "maxLag", report.TriggerRequested: "requested",
	report.TriggerDirtyRatio: "dirty ratio", report.TriggerTombstones: "tombstones due",
}

func word(words map[string]string, key string) string {
	if text, ok := words[key]; ok {
		return text
	}
	return strings.ReplaceAll(key, "_", " ")
}

// statusOf describes a replica's report.
func statusOf(c *report.Compaction) status {
	if c == nil {
		return status{Head: "Not compacted"}
	}
	if c.RunningPass != nil {
		return runningStatus(c)
	}
	if c.Phase == "queued" {
		return status{Head: "Queued", Rest: ": a pass is due (" + word(triggers, c.Trigger) +
			") and waits for a worker slot", Detail: sectionsText(c), Tone: "wait"}
	}
	idle := status{Head: "Idle", Rest: ": " + idleReason(c), Detail: sectionsText(c)}
	switch c.Reason {
	case "Quarantined":
		idle.Head, idle.Tone = "Quarantined", "bad"
	case "CleanerDisabled", "BlockedByOpenTransaction":
		idle.Head, idle.Tone = "Held up", "bad"
	case "UpToDate":
		idle.Head, idle.Rest = "Clean", ": nothing is dirty"
	}
	return idle
}

func runningStatus(c *report.Compaction) status {
	running := status{Head: word(phases, c.Phase) + " " + formatPercent(c.ProgressRatio),
		Ratio: min(1, max(0, c.ProgressRatio)), Bar: true, Tone: "run"}
	if c.EtaSeconds != nil {
		running.Rest = ", " + formatRemaining(seconds(*c.EtaSeconds)) + " left"
	}
	running.Rest += "; " + word(triggers, c.RunningPass.Trigger)
	p := c.RunningPass
	running.Detail = "read " + formatBytes(p.ReadBytes+p.SidecarReadBytes) + ", wrote " +
		formatBytes(p.WrittenBytes+p.SidecarWrittenBytes) + ", freed " +
		formatBytes(p.ReclaimedBytes)
	return running
}

// idleReason says why no pass runs, with the numbers that decide.
func idleReason(c *report.Compaction) string {
	switch c.Reason {
	case "UpToDate":
		return "nothing is dirty"
	case "BelowDirtyRatio":
		return formatPercent(c.DirtyRatio) + " dirty, below the dirty ratio of the topic"
	case "NothingToReclaim":
		garbage := "too little"
		if c.GarbageRatio != nil {
			garbage = "only " + formatPercent(*c.GarbageRatio)
		}
		return formatPercent(c.DirtyRatio) + " dirty, but " + garbage + " of it is garbage"
	case "ActiveSegmentOnly":
		return "only the active segment is dirty"
	case "MinLagNotReached":
		return "the dirty records are younger than minLag"
	case "BlockedByOpenTransaction":
		return "an open transaction blocks the dirty records"
	case "Quarantined":
		return "the last pass failed: " + c.LastError
	case "CleanerDisabled":
		return "the LogCluster has no cleaner workers"
	}
	return c.Reason
}

// sectionsText describes the sections of a log.
func sectionsText(c *report.Compaction) string {
	var s sections
	s.add(c)
	text := formatBytes(s.Clean) + " clean, " + formatBytes(s.Dirty) + " dirty, " +
		formatBytes(s.Blocked) + " blocked"
	if c.ReclaimableBytes != nil {
		about := ""
		if !c.ReclaimableExact {
			about = "about "
		}
		text += "; " + about + formatBytes(*c.ReclaimableBytes) + " garbage"
	}
	return text
}
