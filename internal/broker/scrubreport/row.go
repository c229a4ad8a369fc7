package scrubreport

import (
	"path/filepath"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/scrub"
)

// Row returns the broker's row of GET /api/v1/scrub.
func Row(broker int32, dataDir string, status scrub.Status) report.Scrub {
	answer := report.Scrub{Broker: broker, State: report.ScrubRunning,
		CheckedBytes: status.Bytes, Began: seconds(status.Began),
		Ended: seconds(status.Ended), CheckedSince: seconds(status.CheckedSince),
		Damage: places(dataDir, status.Damaged), Repaired: places(dataDir, status.Repaired),
		Requests: []report.ScrubRequest{}}
	answer.CheckedSegments, answer.Segments = status.Progress(status.Targets, "")
	if interval := status.Settings.Interval; interval == 0 {
		answer.State = report.ScrubOff
	} else {
		answer.IntervalSeconds = interval.Seconds()
		answer.BytesPerSecond = status.Settings.BytesRate
		if status.Complete {
			answer.State, answer.Next = report.ScrubWaiting, seconds(status.Began.Add(interval))
		}
	}
	for _, r := range status.Requests {
		row := report.ScrubRequest{Topic: r.Topic, Asked: r.Asked, Served: r.Served,
			Running: r.Running > 0, Finished: seconds(r.Finished)}
		row.CheckedSegments, row.Segments = status.Progress(status.Targets, r.Topic)
		answer.Requests = append(answer.Requests, row)
	}
	return answer
}

// places returns the damaged places for a report, with file names relative to the data directory.
func places(dataDir string, damaged []scrub.Damaged) []report.ScrubDamage {
	all := []report.ScrubDamage{}
	for _, d := range damaged {
		for _, place := range d.Places {
			file := place.File
			if relative, err := filepath.Rel(dataDir, file); err == nil {
				file = relative
			}
			all = append(all, report.ScrubDamage{Topic: d.Topic, Partition: d.Partition,
				File: file, Position: place.Position, Problem: place.Problem,
				Found: *seconds(d.Found), Repaired: seconds(d.Repaired)})
		}
	}
	return all
}

// seconds returns t in Unix seconds, or nil for the zero time.
func seconds(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	return new(float64(t.UnixMilli()) / 1000)
}
