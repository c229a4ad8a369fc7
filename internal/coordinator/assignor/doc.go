// Package assignor decides which member of a consumer group gets which partitions, on the server
// (KIP-848). It is pure: what it says follows from the members, their subscriptions, the topics and
// what was assigned before.
//
// Invariants of what Uniform and Range return:
//   - Each partition of a topic that anybody subscribes to is given to exactly one member, and that
//     member subscribes to the topic.
//   - Every member has an entry, be it empty.
//   - The same arguments give the same result, whatever the order of maps.
package assignor
