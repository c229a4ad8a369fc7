package broker

import (
	"net/http"

	"heartwood.dev/heartwood/api/report"
)

// failingClientsMax is the number of failing clients that a broker reports.
const failingClientsMax = 20

// handleFailingClients adds the endpoint of clients that fail to authenticate.
func handleFailingClients(mux *http.ServeMux, brokers func() Brokers) {
	mux.HandleFunc("GET /api/v1/failing-clients", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, brokers().failingClients())
	})
}

// failingClients returns the clients that fail to authenticate at these brokers.
func (all Brokers) failingClients() report.FailingClients {
	answer := report.FailingClients{Clients: []report.FailingClient{}}
	for _, b := range all {
		clients := b.failingClients()
		more := max(0, len(clients)-failingClientsMax)
		answer.Clients = append(answer.Clients, clients[:len(clients)-more]...)
		answer.More += more
	}
	return answer
}

// failingClients returns the clients that fail to authenticate at the broker, those that are
// blocked first within each listener.
func (b *Broker) failingClients() (clients []report.FailingClient) {
	for _, l := range b.allListeners() {
		if l.server == nil {
			continue
		}
		for _, c := range l.server.FailingClients() {
			clients = append(clients, report.FailingClient{Broker: b.opts.NodeID, Listener: l.Name,
				Address: c.Address.String(), User: c.User, Blocked: c.Blocked})
		}
	}
	return clients
}
