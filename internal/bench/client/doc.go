// Package client measures brokers as their clients see them: records per second, latencies, and the
// CPU time of the client. It uses only the Kafka protocol, so it measures Heartwood and Apache
// Kafka alike. It implements `heartwood bench produce` and `heartwood bench consume`;
// docs/bench/README.md describes how to compare.
//
//   - options.go: options and their validation.
//   - histogram.go: latencies in little memory.
//   - topic.go: the topic, which is created if it does not exist.
//   - produce.go, consume.go: the two measurements.
//   - result.go: the result.
//
// Invariants:
//   - Every run ends: by its number of records, by its duration, or because no records arrive.
//   - A latency starts when a record was due, not when the client sent it. Otherwise a broker that
//     stalls, and the client with it, would show better latencies.
//   - Records that were not acknowledged are counted as failed, never as sent.
//
// Goroutines: one for each client, joined before Produce or Consume returns.
package client
