package console

import (
	"strings"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
)

// status is a short description of what the cleaner does with a partition, or of why it does
// nothing.
type status struct {
	Head   string  // shown in bold
	Rest   string  // shown after Head in the same line
	Detail string  // shown in the line below
	Ratio  float64 // progress, 0..1
	Bar    bool    // true while a pass runs, to show Ratio
	Tone   string  // "", "run", "wait" or "bad"
}

// phases contains the text for each report.Compaction.Phase of a running pass.
var phases = map[string]string{
	"indexing": "Indexing keys", "deduplicating": "Comparing keys", "rewriting": "Rewriting",
	"committing": "Committing",
}

// triggers contains the text for each report.Pass.Trigger.
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

// statusOf returns the status from a replica's report.
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
	if speed := runningSpeed(p); speed != "" {
		running.Detail = speed + "; "
	}
	running.Detail += "read " + formatBytes(p.ReadBytes+p.SidecarReadBytes) + ", wrote " +
		formatBytes(p.WrittenBytes+p.SidecarWrittenBytes) + ", freed " +
		formatBytes(p.ReclaimedBytes)
	return running
}

// runningSpeed describes the speed of a running pass and how long it has waited. It returns "" if
// neither is known.
func runningSpeed(p *report.Pass) string {
	var parts []string
	if p.BytesPerSecond != nil {
		parts = append(parts, formatBytes(int64(*p.BytesPerSecond))+"/s")
	}
	if waited := waitedOf(p); waited != "" {
		parts = append(parts, "throttled for "+waited)
	}
	return strings.Join(parts, ", ")
}

// waitedMin is the minimum throttled time, in seconds, that a page shows.
const waitedMin = 0.1

// waitedOf returns how long a pass has waited for the cleaner's I/O limit, or "" if it has not.
func waitedOf(p *report.Pass) string {
	if p.ThrottledSeconds < waitedMin {
		return ""
	}
	return formatDuration(seconds(p.ThrottledSeconds))
}

// speedOf returns the mean speed of a completed pass, and how long it has waited.
func speedOf(p *report.Pass) (facts []fact) {
	if p.Ended != nil && *p.Ended > p.Began {
		sum := p.ReadBytes + p.WrittenBytes + p.SidecarReadBytes + p.SidecarWrittenBytes
		facts = append(facts, fact{"read and written per second",
			formatBytes(int64(float64(sum)/(*p.Ended-p.Began))) + " on average"})
	}
	waited := waitedOf(p)
	if waited == "" {
		waited = "not at all"
	}
	return append(facts, fact{"throttled", waited})
}

// idleReason describes why no pass is running, with the numbers that determine this.
func idleReason(c *report.Compaction) string {
	known, ok := summary.Explain(c.Reason)
	if !ok {
		return c.Reason
	}
	facts := summary.Facts{Dirty: formatPercent(c.DirtyRatio), Garbage: "too little",
		Error: c.LastError}
	if c.GarbageRatio != nil {
		facts.Garbage = "only " + formatPercent(*c.GarbageRatio)
	}
	return known.Short(facts)
}

// sectionsText describes the sizes of a log's clean, dirty and blocked sections.
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
