// Package rollout decides which broker a rolling update may restart now. It is pure.
//
// The operator restarts a broker by deleting its pod. The StatefulSet has the update strategy
// OnDelete, so its controller creates the pod again from the latest template. This lets the
// operator control the order and the time of the restarts. The StatefulSet's own rolling update
// would replace the next pod as soon as the last one is ready. But a broker becomes ready before
// its replicas have caught up. Its readiness cannot wait for them, because the broker may hold the
// only copy of a partition.
//
// A partition with one replica can be lent a second replica, which serves while the partition's
// broker is restarted (Lend). Loans are stored in the PartitionSets, which lets another operator
// process continue with them.
package rollout
