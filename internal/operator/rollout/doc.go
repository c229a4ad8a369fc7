// Package rollout decides which broker a rolling update may restart now. It is pure.
//
// The StatefulSet controller replaces only pods whose ordinal is at least
// spec.updateStrategy.rollingUpdate.partition. So the decision is one number: how many pods, from
// ordinal 0, are held, that is, keep their present template.
//
// Without this package, the StatefulSet controller would replace the next pod as soon as the last
// one is ready. But a broker becomes ready before its replicas have caught up; it cannot wait for
// them, because it may hold the only copy of a partition. So the operator holds the next pod until
// all replicas have caught up.
package rollout
