// Package handler handles Kafka requests. It finds the API in its table, and passes the request to
// the package that implements the API. These packages call internal/replica, internal/coordinator
// and internal/metadata. They contain one file for each API, whose name contains the API key:
//
//   - data: records and logs
//   - groups: consumer groups
//   - transactions: producers and transactions
//   - admin: topics, settings, users and the cluster
//   - api: shared code, such as authorization, error codes and quotas
//
// table.go lists the APIs with their versions and required operations. This package itself handles
// ApiVersions, UpdateFeatures and the refused APIs.
//
// Invariants:
//   - Every version in the ranges of table.go is supported. A request with another key or version
//     closes the connection.
//   - A request's body is untrusted. Whatever its bytes are, the result is a response or an error,
//     never a panic, and the memory for decoding is limited (api.Shape).
//   - A handler loads the metadata image only once per request, so that the response is consistent.
//
// A Handler has no goroutines. All connections use it concurrently.
package handler
