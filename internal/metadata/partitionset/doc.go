// Package partitionset decodes PartitionSets, makes decisions about their partitions, and encodes
// the results. docs/internals/format/partition-sets.md describes the entries.
//
//   - key.go: the keys of entries, and the set to which a partition belongs.
//   - entry.go: the text of one entry. set.go: a whole set, and changes of it.
//   - decide.go: the operator's decisions, made with package placement.
//   - leader.go: the brokers' changes: ISRs, which partitions they serve, and requested elections.
//   - remembered.go: a deleted set's status, stored in an annotation of the set that replaces it.
//
// A Set is not safe for concurrent use. Its entries are immutable, so a clone of a set is cheap and
// its entries may be shared. Package partitionset/commit writes sets to the API server.
//
// Invariants of a decoded entry:
//  1. The replicas are distinct, and ISR is a subset of them in the same order.
//  2. The leader is placement.NoLeader or a member of ISR, except after the leader itself has left
//     the ISR, because its disk failed; the next decision then elects another one.
//  3. Changes grows with each change of the entry, and is never reset while the entry exists. After
//     a failed compare-and-swap it shows whether this entry has changed, or only another one.
//
// An entry that cannot be parsed is reported, and remains in the set unchanged, because it may be
// the only information about a partition's records.
package partitionset
