package broker

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/logstore/scrub"
	"heartwood.dev/heartwood/internal/metadata"
)

// ScrubNow requests that these brokers check the files of a topic, or all files if topic is empty,
// at once. The result also lists the brokers of other processes.
func (all Brokers) ScrubNow(topic string) (report.ScrubRequests, error) {
	answer := report.ScrubRequests{Topic: topic, Requests: []report.ScrubNowRequest{}}
	image := all.image()
	if image == nil {
		return answer, ErrStarting
	}
	if topic != "" && image.Topic(topic) == nil {
		return answer, fmt.Errorf("%w %q", ErrUnknownTopic, topic)
	}
	ids := holders(image, topic)
	for _, b := range all {
		if !ids[b.opts.NodeID] {
			continue
		}
		delete(ids, b.opts.NodeID)
		ticket, err := b.scrub.Request(topic)
		if err != nil {
			return answer, fmt.Errorf("broker %d: %w", b.opts.NodeID, httpport.ErrScrubOff)
		}
		answer.Requests = append(answer.Requests,
			report.ScrubNowRequest{Broker: b.opts.NodeID, Ticket: ticket})
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		other, _ := image.Broker(id)
		endpoint, _ := other.Endpoints.On(metadata.DefaultListener)
		answer.Elsewhere = append(answer.Elsewhere,
			report.ScrubElsewhere{Broker: id, Host: endpoint.Host})
	}
	return answer, nil
}

// holders returns the brokers that have replicas of a topic, or all brokers that are up or have
// replicas if topic is empty.
func holders(image *metadata.Image, topic string) map[int32]bool {
	ids := map[int32]bool{}
	for _, t := range image.Topics {
		if topic != "" && t.Name != topic {
			continue
		}
		for _, p := range t.Partitions {
			for _, id := range p.Replicas {
				ids[id] = true
			}
		}
	}
	if topic == "" {
		for i := range image.Brokers {
			ids[image.Brokers[i].ID] = true
		}
	}
	return ids
}

// scrubReport returns the row of GET /api/v1/scrub for this broker.
func (b *Broker) scrubReport() report.Scrub {
	status := b.scrub.Status()
	answer := report.Scrub{Broker: b.opts.NodeID, State: report.ScrubRunning,
		CheckedBytes: status.Bytes, Began: secondsOrNil(status.Began),
		Ended: secondsOrNil(status.Ended), CheckedSince: secondsOrNil(status.CheckedSince),
		Damage: b.places(status.Damaged), Repaired: b.places(status.Repaired),
		Requests: []report.ScrubRequest{}}
	answer.CheckedSegments, answer.Segments = status.Progress(status.Targets, "")
	if interval := status.Settings.Interval; interval == 0 {
		answer.State = report.ScrubOff
	} else {
		answer.IntervalSeconds = interval.Seconds()
		answer.BytesPerSecond = status.Settings.BytesRate
		if status.Complete {
			answer.State, answer.Next = report.ScrubWaiting, secondsOrNil(status.Began.Add(interval))
		}
	}
	for _, r := range status.Requests {
		row := report.ScrubRequest{Topic: r.Topic, Asked: r.Asked, Served: r.Served,
			Running: r.Running > 0, Finished: secondsOrNil(r.Finished)}
		row.CheckedSegments, row.Segments = status.Progress(status.Targets, r.Topic)
		answer.Requests = append(answer.Requests, row)
	}
	return answer
}

// places returns the places of damaged targets.
func (b *Broker) places(damaged []scrub.Damaged) []report.ScrubDamage {
	places := []report.ScrubDamage{}
	for _, d := range damaged {
		for _, place := range d.Places {
			file := place.File
			if relative, err := filepath.Rel(b.opts.DataDir, file); err == nil {
				file = relative
			}
			places = append(places, report.ScrubDamage{Topic: d.Topic, Partition: d.Partition,
				File: file, Position: place.Position, Problem: place.Problem,
				Found: unixSeconds(d.Found), Repaired: secondsOrNil(d.Repaired)})
		}
	}
	return places
}

// secondsOrNil returns a time in seconds, or nil for the zero time.
func secondsOrNil(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	return new(unixSeconds(t))
}
