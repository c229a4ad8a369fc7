// Package client measures a broker from outside, as its clients see it: records a second,
// latencies, and what the client itself costs. It speaks the Kafka protocol and nothing else, so
// the same command measures Heartwood and Apache Kafka. It is behind `heartwood bench produce` and
// `heartwood bench consume`; docs/bench/README.md says how to compare.
//
//   - options.go: what is measured, checked before anything is sent.
//   - histogram.go: latencies in little memory.
//   - topic.go: the topic, made when it is absent.
//   - produce.go, consume.go: the two ways.
//   - result.go: what came of it.
//
// Invariants:
//   - A run ends: by its records, by its time, or because nothing comes any more.
//   - A latency counts from when a record was due, not from when the client got round to it: a
//     broker that stalls does not look better because the client stalled with it.
//   - What was not acknowledged is counted, and never as sent.
//
// Goroutines: one a client, all joined before Produce or Consume returns.
package client
