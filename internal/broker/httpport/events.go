package httpport

import (
	"errors"
	"fmt"
	"math"
	"net/http"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/events"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
)

// EventTopicsMax is the maximum number of topics in one event stream.
const EventTopicsMax = 16

// handleEvents adds the events endpoint. The endpoint has no request deadline; a stream sets a
// deadline for each write instead.
func handleEvents(mux *http.ServeMux, brokers func() Brokers) {
	var hub *events.Hub
	hub = events.NewHub(events.Source{
		Segments: func(topic string) []report.Segments {
			all := brokers()
			all.observe(hub) // brokers may have started since the last call
			return all.segmentsOf(topic)
		},
		Running: func(topics []string) []report.PartitionPass {
			return brokers().running(topics)
		},
	})
	mux.Handle("GET /api/v1/events", withDeadline(0, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			topics, all := r.URL.Query()["topic"], brokers()
			var err error
			switch {
			case len(topics) > EventTopicsMax:
				err = fmt.Errorf("%w: %d topics, at most %d are possible", errParameter, len(topics),
					EventTopicsMax)
			case len(all) == 0:
				err = ErrStarting
			default:
				all.observe(hub)
				err = hub.Serve(w, r, topics)
			}
			switch {
			case errors.Is(err, events.ErrTooManyStreams), errors.Is(err, events.ErrTooManyTopics):
				respond(w, http.StatusServiceUnavailable,
					report.Failure{Error: err.Error(), Reason: "TooManyStreams"})
			case err != nil:
				respondReport(w, nil, err)
			}
		})))
}

// observe makes the brokers send their passes and the steps of passes to the hub.
func (all Brokers) observe(hub *events.Hub) {
	for _, b := range all {
		b.Observe(hub)
	}
}

// segmentsOf returns the segments of each of the topic's replicas on these brokers.
func (all Brokers) segmentsOf(topic string) (reports []report.Segments) {
	for _, b := range all {
		for _, state := range b.Replicas.States() {
			if state.ID.Topic != topic || state.Log == nil {
				continue
			}
			rows, err := b.segments(state.ID, state.Leader, 0, math.MaxInt32)
			if err != nil {
				continue // the log is being closed
			}
			reports = append(reports, rows)
		}
	}
	return reports
}

// running returns the running passes over the given topics, or over all topics if topics is empty,
// with their steps.
func (all Brokers) running(topics []string) (running []report.PartitionPass) {
	for _, b := range all {
		passes, _ := b.Cleaner.Passes(passlog.Filter{Topics: topics, Partition: -1, Running: true,
			Limit: report.PassesMax, Steps: true})
		running = append(running, passes...)
	}
	return running
}
