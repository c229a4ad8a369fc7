// Package handler answers Kafka requests: it finds the API in its table, and passes the request to
// the part that serves the API. The parts call internal/replica, internal/coordinator and
// internal/metadata. There is one file for each API, named by its key:
//
//   - data: records and logs
//   - groups: consumer groups
//   - transactions: producers and transactions
//   - admin: topics, settings, users and the cluster
//   - api: what all of them share, such as authorization, error codes and quotas
//
// table.go lists the APIs with their versions and required operations. ApiVersions, UpdateFeatures
// and the APIs that are refused are answered here.
//
// Invariants:
//   - Every version in the ranges of table.go is served. A request with another key or version
//     closes the connection.
//   - A body is untrusted. Whatever its bytes, the result is a response or an error, never a panic,
//     and the memory for decoding is limited (api.Shape).
//   - A handler loads the metadata image once per request, so that a response is consistent.
//
// A Handler has no goroutines. All connections use it concurrently.
package handler
