// Package partitionset converts PartitionSets to and from the form in which decisions are made, and
// makes these decisions. docs/format/partition-sets.md describes the entries.
//
//   - key.go: which set a partition belongs to, and the keys of entries.
//   - entry.go: the text of one entry. set.go: a whole set, and changes of it.
//   - decide.go: what the operator decides, by package placement.
//   - leader.go: what brokers change: the ISR, which partitions they serve, requested elections.
//   - remembered.go: the status of a deleted set in an annotation of the set that replaces it.
//
// A Set is not safe for concurrent use. Its entries are immutable, so a clone of a set is cheap and
// its entries may be shared. Package partitionset/commit writes sets to the API server.
//
// Invariants of a decoded entry:
//  1. The replicas are distinct, and ISR is a subset of them in the same order.
//  2. The leader is placement.NoLeader or a member of ISR, except after the leader itself has left
//     the ISR, because its disk failed; the next decision then elects another one.
//  3. Changes grows with each change of the entry and is never reset while the entry exists. After
//     a failed compare-and-swap it shows whether this entry or only another one has changed.
//
// An entry that cannot be parsed is reported, and stays in the set as it is: it may be all that is
// known about a partition's records.
package partitionset
