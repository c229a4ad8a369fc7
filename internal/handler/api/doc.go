// Package api is what the handlers of all Kafka APIs share: authorization and its audit log, the
// errors and their codes, the check of bodies before they are decoded, quotas, and the keys of the
// APIs.
//
// Invariants:
//   - A handler may do only what its row in the table of package handler lists (Access).
//   - The memory for decoding a body is limited (Shape). Decoded releases the frame of a request
//     before its handler waits (ADR 0170).
//   - An error without a row in kafkaErrors is logged, and the client gets UNKNOWN_SERVER_ERROR.
package api
