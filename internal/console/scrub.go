package console

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/report"
)

// scrubRow is one broker in the panel Damage at rest on the page Brokers.
type scrubRow struct {
	ID       int32
	State    string
	Last     string // time since the last complete round; "" if there is none
	Progress string // progress of the current or last round
	Bytes    int64
	// Unchecked is the age of the oldest check: all files at rest have been checked within this time.
	// It is "" until the first round ends.
	Unchecked string
	Damage    int // number of damaged places
}

// damageRow is one damaged place.
type damageRow struct {
	Broker    int32
	Partition string // "": a file in the data directory
	report.ScrubDamage
	At       instant
	Mended   instant
	Repaired bool
}

// scrubPanel is the panel Damage at rest.
type scrubPanel struct {
	Rows   []scrubRow
	Damage []damageRow // the remaining damage, followed by the last repairs
	More   int         // number of places that are not shown
}

// damageMax is the maximum number of damage rows.
const damageMax = 100

// scrubPanelOf returns the panel for the scrubs of the brokers that have answered.
func scrubPanelOf(scrubs []report.Scrub, now time.Time) (panel scrubPanel) {
	slices.SortFunc(scrubs, func(a, b report.Scrub) int { return cmp.Compare(a.Broker, b.Broker) })
	var repaired []damageRow
	for i := range scrubs {
		s := &scrubs[i]
		panel.Rows = append(panel.Rows, scrubRowOf(s, now))
		panel.Damage = append(panel.Damage, damageRows(s.Broker, s.Damage)...)
		repaired = append(repaired, damageRows(s.Broker, s.Repaired)...)
	}
	panel.Damage = append(panel.Damage, repaired...)
	if panel.More = max(0, len(panel.Damage)-damageMax); panel.More > 0 {
		panel.Damage = panel.Damage[:damageMax]
	}
	return panel
}

func scrubRowOf(s *report.Scrub, now time.Time) scrubRow {
	row := scrubRow{ID: s.Broker, State: s.State, Bytes: s.CheckedBytes, Damage: len(s.Damage),
		Progress: fmt.Sprintf("%d of %s", s.CheckedSegments, plural(s.Segments, "segment"))}
	if s.CheckedSince != nil {
		since := seconds(*s.CheckedSince)
		row.Unchecked = formatDuration(time.Duration(now.UnixNano()) - since)
		if s.Ended != nil {
			row.Last = fmt.Sprintf("ended %s ago, took %s",
				formatDuration(time.Duration(now.UnixNano())-seconds(*s.Ended)),
				formatDuration(seconds(*s.Ended)-since))
		}
	}
	return row
}

func damageRows(broker int32, places []report.ScrubDamage) (rows []damageRow) {
	for _, d := range places {
		row := damageRow{Broker: broker, ScrubDamage: d, At: at(&d.Found),
			Repaired: d.Repaired != nil}
		if d.Repaired != nil {
			row.Mended = at(d.Repaired)
		}
		if d.Topic != "" {
			row.Partition = fmt.Sprintf("%s-%d", d.Topic, d.Partition)
		}
		rows = append(rows, row)
	}
	return rows
}
