// Package reachability decides which brokers are cut off from the other brokers of their cluster,
// although they still reach the metadata store. Such a broker keeps its Lease, but its followers
// cannot fetch from it, and it cannot follow.
//
//   - Report (report.go) is the set of peers that a broker does not reach, and its text in the
//     broker's Lease.
//   - Observer (observer.go) derives a broker's Report from the answers to its pings.
//   - Isolation (isolation.go) derives from all Reports which brokers are isolated. The operator
//     elects other leaders for their partitions, and the leaders remove them from the ISRs
//     (ADR 0282).
//
// The package is pure: the current time is an argument, and the caller serializes the calls.
//
// Invariants: more than half of the live brokers are never isolated. An isolated broker could not
// reach a majority of the other brokers that are not isolated when it was isolated. With two
// brokers none is isolated, because the reports of both are alike.
package reachability
