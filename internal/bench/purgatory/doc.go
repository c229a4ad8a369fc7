// Package purgatory measures the purgatory of internal/timer by itself, with the load by which
// Kafka's purgatory was measured when it got its timing wheels: requests arrive at exponentially
// distributed intervals, each would complete after a log-normally distributed time, another
// goroutine completes them, and those that would take longer than the timeout expire.
// docs/bench/purgatory.md contains the figures.
//
//   - draw.go: the random times, pure.
//   - schedule.go: which requests complete when; a ring of buckets, so that it costs little.
//   - run.go: the load generator, the completer, and what they measure.
//   - subject.go: the subject of a measurement: the purgatory, or only the load (the baseline).
//
// The figures are those of the whole process. Running the baseline shows the cost of the load
// itself: at a million requests a second on two CPUs it is a large part of the total. To keep it
// small, times are drawn before the measurement starts, and due requests are sent together once per
// millisecond instead of sleeping for each.
package purgatory
