// Package rollout decides which broker may be restarted now when the pods' template has changed. It
// is pure. The StatefulSet's controller replaces pods from its partition on
// (spec.updateStrategy.rollingUpdate.partition), so the decision is one number.
//
// A StatefulSet by itself goes on as soon as a pod is ready. A broker is ready before its replicas
// have caught up, as it must be: it may hold the only copy of another partition. So the operator
// holds the next one back until they have.
package rollout
