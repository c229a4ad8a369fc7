// Package reachability determines which brokers cannot reach the other brokers of their cluster,
// although they still reach the metadata store. Such a broker keeps its Lease, but its followers
// cannot fetch from it, and it cannot follow.
//
//   - Report (report.go) is the set of peers that a broker cannot reach. The broker's Lease
//     contains it as text.
//   - Observer (observer.go) derives a broker's Report from the answers to its pings.
//   - Isolation (isolation.go) derives from all Reports which brokers are isolated. The operator
//     then elects other leaders for their partitions, and the leaders remove the isolated brokers
//     from the ISRs (ADR 0282).
//
// The package is pure: the current time is an argument, and the caller serializes the calls.
//
// Invariants: at any time, more than half of the live brokers are not isolated. When a broker
// became isolated, it could not reach a majority of the other brokers that were not isolated. With
// two brokers, none becomes isolated, because both send the same report about each other.
package reachability
