// Package consumer is what a coordinator knows of a group of the consumer protocol (KIP-848), and
// does: members that say what they subscribe to, and are told by the coordinator which partitions
// are theirs. It is a plain struct, as internal/coordinator/group, whose State holds it: the time
// and the cluster's topics come in, records to be stored and answers come out, and Replay of stored
// records is the only thing that changes what is stored.
//
// Each heartbeat of a member does four things, as far as there is need:
//
//	what it says of itself, and which topics its expression matches ── differs ──► group epoch + 1
//	group epoch above assignment epoch ──► a new target assignment of all (internal/coordinator/assignor), of that epoch
//	the member's epoch and partitions ──► one step nearer to its target (reconcile.go)
//	the answer: its epoch, and its partitions when they are news to it
//
// A member's life between two epochs, by what is stored of it:
//
//	Stable ──some of its partitions are another's now──► Unrevoked ──it says that it has given them up──┐
//	  ▲                                                                                                 ▼
//	  └── all of its target are its own ◄── Unreleased: in the new epoch, waits for what others have not given up
//
// Invariants:
//   - A partition has one owner at most: it is in the Assigned or the Revoking of one member. A
//     member is given one only once no other has it, and loses it only when it says so, leaves, or
//     is out because it was not heard of in time.
//   - A member's epoch is never above the assignment epoch, and that never above the group's.
//   - Any prefix of the records of one request is a state that the next heartbeats, or the end of a
//     session, put right. For that the group's epoch is stored before what it stands for, and a
//     member that goes is taken off last (docs/format/consumer-groups.md).
//
// The rules are those of Kafka 4.3's GroupMetadataManager and CurrentAssignmentBuilder (KIP-848,
// 1082, 1101, 1251), not its code.
package consumer
