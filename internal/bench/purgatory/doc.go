// Package purgatory measures internal/timer's purgatory by itself, with the load by which Kafka's
// was measured when it got its timing wheels: requests arrive at exponential intervals, each would
// complete after a log-normal time, a goroutine of its own completes them, and those that would
// take longer than the timeout expire. docs/bench/purgatory.md has the figures.
//
//   - draw.go: the random times, pure.
//   - calendar.go: which requests are to be completed when. A plain ring of buckets: it must cost
//     next to nothing.
//   - run.go: the load generator, the completer, and what they measure.
//   - subject.go: what is measured: the broker's own purgatory, rivals, or nothing at all (the
//     baseline).
//   - rival.go, rival_timers.go, rival_lists.go: the purgatory as it would be with other timers and
//     other watch lists.
//
// What the load itself costs is measured by running it on the baseline and told beside: at a
// million requests a second on two processors it is no small part of the whole. To keep it small,
// times are drawn before the clock starts, requests that are due are sent in one go once a
// millisecond, and nobody sleeps for a single request.
package purgatory
