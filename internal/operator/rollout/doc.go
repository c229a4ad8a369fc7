// Package rollout decides which broker a rolling update may restart now. It is pure.
//
// The operator restarts a broker by deleting its pod; the StatefulSet controller, whose update
// strategy is OnDelete, creates the pod again from the latest template. So the operator controls
// the order and the moment of each restart. The StatefulSet's own rolling update would replace the
// next pod as soon as the last one is ready. But a broker becomes ready before its replicas have
// caught up; it cannot wait for them, because it may hold the only copy of a partition.
//
// A partition with one replica can be lent a second one, so that it serves while its broker is
// restarted (Lend). Loans are stored in the PartitionSets, so that another operator continues with
// them.
package rollout
