package httpport

import (
	"net/http"

	"heartwood.dev/heartwood/api/report"
)

// failingClientsMax is the maximum number of failing clients that a broker reports.
const failingClientsMax = 20

// handleFailingClients adds the endpoint that lists clients that fail to authenticate.
func handleFailingClients(mux *http.ServeMux, brokers func() Brokers) {
	mux.HandleFunc("GET /api/v1/failing-clients", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, brokers().failingClients())
	})
}

// failingClients returns the clients that fail to authenticate at these brokers.
func (all Brokers) failingClients() report.FailingClients {
	answer := report.FailingClients{Clients: []report.FailingClient{}}
	for _, b := range all {
		clients := b.FailingClients()
		more := max(0, len(clients)-failingClientsMax)
		answer.Clients = append(answer.Clients, clients[:len(clients)-more]...)
		answer.More += more
	}
	return answer
}
