// Package httpport serves the HTTP port of the brokers of one process: metrics, health, profiles,
// and the reports of api/report under /api/v1. It owns the endpoints, their parameters and limits,
// and the status of each error; docs/use/http.md describes them.
//
// New (http.go) returns the handler. The port accesses a broker only through the functions in
// Broker (brokers.go). Package broker provides the functions in Options, such as those for topic
// summaries and transactions.
package httpport
