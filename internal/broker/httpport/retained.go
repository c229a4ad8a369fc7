package httpport

import (
	"fmt"
	"net/http"

	"heartwood.dev/heartwood/api/report"
)

// handleRetained adds the retained logs endpoint.
func handleRetained(mux *http.ServeMux, brokers func() Brokers) {
	mux.HandleFunc("GET /api/v1/retained", func(w http.ResponseWriter, _ *http.Request) {
		answer, err := brokers().retained()
		respondReport(w, answer, err)
	})
}

// retained returns the retained logs on these brokers' disks.
func (all Brokers) retained() (report.RetainedLogs, error) {
	answer := report.RetainedLogs{Logs: []report.RetainedLog{}}
	if len(all) == 0 {
		return answer, ErrStarting
	}
	for _, b := range all {
		logs, err := b.Store.Retained()
		if err != nil {
			return answer, fmt.Errorf("list the retained logs of broker %d: %w", b.ID, err)
		}
		for _, log := range logs {
			answer.Logs = append(answer.Logs, report.RetainedLog{Broker: b.ID,
				Topic: log.ID.Topic, TopicID: log.Topic.String(), Partition: log.ID.Index,
				SizeBytes: log.SizeBytes, Offsets: max(0, log.HighWatermark-log.LogStart),
				Released: float64(log.Released.UnixMilli()) / 1000})
		}
	}
	return answer, nil
}
