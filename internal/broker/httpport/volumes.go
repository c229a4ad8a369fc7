package httpport

import (
	"net/http"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/pressure"
)

// handleVolumes adds the volumes endpoint.
func handleVolumes(mux *http.ServeMux, brokers func() Brokers) {
	mux.HandleFunc("GET /api/v1/volumes", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, brokers().volumes())
	})
}

// volumes returns the volumes of these brokers.
func (all Brokers) volumes() report.Volumes {
	answer := report.Volumes{Volumes: []report.Volume{}}
	for _, b := range all {
		if v, known := b.Volume(); known {
			answer.Volumes = append(answer.Volumes, v)
		}
	}
	return answer
}

// refusals returns a description of the volume of each broker that refuses records.
func (all Brokers) refusals() (texts []string) {
	for _, b := range all {
		if v, known := b.Volume(); known &&
			pressure.ParseLevel(v.Pressure) >= pressure.Reject {
			texts = append(texts, v.Message)
		}
	}
	return texts
}
