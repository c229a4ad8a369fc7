// Package rollout decides which broker a rolling update may restart now. It is pure.
//
// The StatefulSet controller replaces pods from an ordinal on
// (spec.updateStrategy.rollingUpdate.partition), so the decision is one number: how many pods are
// held at their template.
//
// The StatefulSet controller alone would continue as soon as a pod is ready. A broker is ready
// before its replicas have caught up, and must be: it may hold the only copy of another partition.
// So the operator holds the next pod until they have caught up.
package rollout
