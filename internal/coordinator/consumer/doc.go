// Package consumer implements one group of the consumer protocol (KIP-848): members send their
// subscriptions, and the coordinator assigns the partitions. Like internal/coordinator/group, whose
// State contains it, it is a deterministic state machine: the time and the cluster's topics are
// arguments, records to store and answers are results, and only Replay of stored records changes
// stored state.
//
// A heartbeat of a member performs up to four steps:
//
//	subscription or matched topics differ  ──► group epoch + 1
//	group epoch > assignment epoch         ──► new targets of all members, with the group epoch
//	member differs from its target         ──► one step towards the target (reconcile.go)
//	answer                                 ◄── its epoch, and its partitions if they changed
//
// The stored states of a member between two epochs:
//
//	Stable ───── it must revoke partitions ─────► Unrevoked
//	  ▲                                               │ it reports that it has revoked them
//	  └─ it owns its whole target ─ Unreleased ◄──────┘
//
// In Unreleased the member is in the new epoch, and waits for partitions that others still own.
//
// Invariants:
//   - A partition has at most one owner: it is in Assigned or Revoking of one member only. A member
//     gets a partition only when no other member has it, and loses one only when it reports so,
//     leaves, or its session or rebalance timeout expires.
//   - A member's epoch <= the assignment epoch <= the group epoch.
//   - Any prefix of the records of one request is a state from which the next heartbeats or the end
//     of a session continue correctly. Therefore the group epoch is stored before the records that
//     depend on it, and the record of a removed member is deleted last
//     (docs/format/consumer-groups.md).
//
// The rules are those of Kafka 4.3's GroupMetadataManager and CurrentAssignmentBuilder (KIP-848,
// 1082, 1101, 1251); the code is not.
package consumer
