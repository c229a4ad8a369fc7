// Package purgatory measures the purgatory of internal/timer by itself. The load is the one that
// Kafka's developers used to measure timing wheels in Kafka's purgatory. Requests arrive at
// exponentially distributed intervals. Another goroutine, the completer, completes each request
// after a log-normally distributed time. A request whose time exceeds the timeout expires instead.
// docs/internals/bench/purgatory.md contains the figures.
//
//   - draw.go: draws the random times and keys; pure.
//   - schedule.go: orders the requests by the time at which they complete; a ring of buckets.
//   - run.go: the load generator, the completer, and what they measure.
//   - subject.go: the subject of a measurement: the purgatory, or only the load (the baseline).
//
// The figures are the resource usage of the whole process. A run of the baseline shows the cost of
// the load itself: at a million requests a second on two CPUs it is a large part of the total. Two
// measures keep this cost low. Times are drawn before the measurement starts, and the load
// generator sends all due requests once per millisecond instead of sleeping before each request.
package purgatory
