// Package consumer implements one group of the consumer protocol (KIP-848): members send their
// subscriptions, and the coordinator assigns the partitions. It is a deterministic state machine,
// like package group. A State of package group contains one Group of this package for each group
// that uses the consumer protocol. The time and the cluster's topics are arguments. Each call
// returns the records to store and the answer to send. Only Replay of stored records changes stored
// state.
//
// A heartbeat of a member performs up to four steps:
//
//	subscription or matched topics differ  ──► group epoch + 1
//	group epoch > assignment epoch, and
//	last targets older than the interval   ──► new targets of all members, with the group epoch
//	member differs from its target         ──► one step towards the target (reconcile.go)
//	answer                                 ◄── its epoch, and its partitions if they changed
//
// The stored phase of a member changes as follows on its way to the next epoch:
//
//	Stable ───── it must revoke partitions ─────► Unrevoked
//	  ▲                                               │ it reports that it has revoked them
//	  └─ it owns its whole target ─ Unreleased ◄──────┘
//
// A member in phase Unreleased is in the new epoch already, and waits for partitions that other
// members still own.
//
// Invariants:
//   - A partition has at most one owner: the member that lists the partition in Assigned or
//     Revoking. A member gets a partition only when no other member owns it. A member loses a
//     partition only when it reports that it has revoked the partition, when it leaves, or when its
//     session or rebalance timeout expires.
//   - A member's epoch <= the assignment epoch <= the group epoch.
//   - If only some of a request's records are stored, from the first to any later one, the next
//     heartbeats and expiries of sessions still bring the group into a correct state. Therefore the
//     group epoch is stored before the records that depend on it, and a removed member's record is
//     deleted last (docs/internals/format/consumer-groups.md).
//
// The rules are those of Kafka 4.3's GroupMetadataManager and CurrentAssignmentBuilder (KIP-848,
// 1082, 1101, 1251, 1263). The code is not copied from Kafka.
package consumer
