// Package api contains what the handlers of all Kafka APIs share: authorization and its audit log,
// errors and their codes, the check of request bodies before they are decoded, quotas, and the API
// keys.
//
// Invariants:
//   - A handler may perform only the operations that its row in the table of package handler lists
//     (Access).
//   - The memory for decoding a body is limited (Shape). Decoded releases a request's frame before
//     its handler waits (ADR 0170).
//   - An error without a row in kafkaErrors is logged, and the client gets UNKNOWN_SERVER_ERROR.
package api
