package httpport

import (
	"net/http"

	"heartwood.dev/heartwood/api/report"
)

// handleScrub adds the scrub endpoints.
func handleScrub(mux *http.ServeMux, opts Options) {
	mux.HandleFunc("GET /api/v1/scrub", func(w http.ResponseWriter, _ *http.Request) {
		answer := report.Scrubs{Scrubs: []report.Scrub{}}
		for _, b := range opts.Brokers() {
			answer.Scrubs = append(answer.Scrubs, b.Scrub())
		}
		respond(w, http.StatusOK, answer)
	})
	mux.HandleFunc("POST /api/v1/scrub", func(w http.ResponseWriter, r *http.Request) {
		answer, err := opts.ScrubNow(r.URL.Query().Get("topic"))
		respondAccepted(w, answer, err)
	})
}
