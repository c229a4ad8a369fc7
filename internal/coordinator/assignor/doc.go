// Package assignor assigns partitions to the members of a consumer group on the server (KIP-848).
// It is pure: the result is a function of the members, their subscriptions, the topics and the
// previous assignment.
//
// Invariants of the results of Uniform and Range:
//   - Each partition of a topic with subscribers is assigned to exactly one member, which
//     subscribes to the topic.
//   - Every member has an entry, which may be empty.
//   - The same arguments give the same result, independent of map order.
package assignor
