// Package conditions builds condition Ready, and creates an event when the reason of condition
// Ready changes.
package conditions

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Operator is the operator's name as a field manager of server-side apply and as the reporting
// controller of events.
const Operator = "heartwood-operator"

// Ready returns condition Ready with status True.
func Ready(message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: message,
	}
}

// NotReady returns condition Ready with status False.
func NotReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse,
		Reason: reason, Message: message}
}

// Recorder creates Kubernetes events about resources.
type Recorder struct{ recorder recorder.EventRecorder }

// NewRecorder returns a recorder that reports as the operator.
func NewRecorder(mgr ctrl.Manager) Recorder { return Recorder{mgr.GetEventRecorder(Operator)} }

// startReasons contains the reasons that every new resource has for a short time. They cause no
// warning if they are the first reason of a resource.
var startReasons = []string{v1alpha1.ReasonBrokersNotReady, v1alpha1.ReasonPartitionsNotReady}

// ReadyChanged creates an event if the reason of condition Ready has changed. The event is a
// Warning unless the condition is True or the resource is new. A change of the message alone
// creates no event, because messages contain numbers of partitions, and each change of a number
// would create an event.
func (r Recorder) ReadyChanged(object runtime.Object, before, after []metav1.Condition) {
	old, now := meta.FindStatusCondition(before, v1alpha1.ConditionReady),
		meta.FindStatusCondition(after, v1alpha1.ConditionReady)
	if now == nil || old != nil && old.Reason == now.Reason {
		return
	}
	kind := corev1.EventTypeWarning
	if now.Status == metav1.ConditionTrue ||
		old == nil && slices.Contains(startReasons, now.Reason) {
		kind = corev1.EventTypeNormal
	}
	r.recorder.Eventf(object, nil, kind, now.Reason, "Reconcile", "%s", now.Message)
}

// Normal creates an event of type Normal. format and values make its message.
func (r Recorder) Normal(object runtime.Object, reason, action, format string, values ...any) {
	r.recorder.Eventf(object, nil, corev1.EventTypeNormal, reason, action, format, values...)
}

// Warning creates an event of type Warning. format and values make its message.
func (r Recorder) Warning(object runtime.Object, reason, action, format string, values ...any) {
	r.recorder.Eventf(object, nil, corev1.EventTypeWarning, reason, action, format, values...)
}

// Retained returns a sentence, with a leading space, about retained records on volumes of brokers
// without replicas; "" if there are none. Deleting the volumes deletes these records.
func Retained(partitions int) string {
	if partitions == 0 {
		return ""
	}
	return fmt.Sprintf(" Their volumes have records of %d retained partitions of deleted topics, "+
		"which do not move.", partitions)
}
