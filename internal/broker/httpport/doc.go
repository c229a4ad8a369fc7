// Package httpport serves the HTTP port of the brokers of one process: metrics, health, profiles,
// and the reports of api/report under /api/v1. It owns the endpoints, their parameters and limits,
// and the status of each error; docs/http.md describes them.
//
// New (http.go) returns the handler. Broker (brokers.go) is all that it reads of a broker, so the
// port cannot change how a broker runs. The sums over topics, and the transactions, are functions
// of Options, which package broker provides.
package httpport
