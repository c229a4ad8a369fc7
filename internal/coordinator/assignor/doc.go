// Package assignor implements the server-side assignors of KIP-848, which assign partitions to the
// members of a consumer group. It is pure: the result is a function of the members, their
// subscriptions, the topics and the previous assignment.
//
// Invariants of the results of Uniform and Range:
//   - Each partition of a topic with subscribers is assigned to exactly one member, and this member
//     subscribes to the topic.
//   - The result contains every member, even if its assignment is empty.
//   - Equal arguments give equal results, regardless of the iteration order of maps.
package assignor
