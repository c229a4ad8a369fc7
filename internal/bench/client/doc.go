// Package client measures brokers as their clients see them: records per second, latencies, and the
// CPU time of the client. It uses only the Kafka protocol, so it measures Heartwood and Apache
// Kafka alike. It implements `heartwood bench produce` and `heartwood bench consume`;
// docs/internals/bench/README.md describes how to compare the two.
//
//   - options.go: options and their validation.
//   - histogram.go: counts latencies in little memory.
//   - topic.go: the topic, which is created if it does not exist.
//   - produce.go, consume.go: the two measurements; transaction.go: the transactions of producers.
//   - result.go: the result.
//
// Invariants:
//   - Every run ends: by its number of records, by its duration, or because no records arrive.
//   - A latency starts when a record was due, not when the client sent it. A broker that stalls
//     also stalls the client, so latencies from the time of sending would be too low.
//   - Records that were not acknowledged are counted as failed, never as sent.
//
// Goroutines: one for each client. Produce and Consume wait for all of them before they return.
package client
