// Package conditions builds the condition Ready and records events when it changes.
package conditions

import (
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

// Recorder records Kubernetes events on resources.
type Recorder struct{ recorder recorder.EventRecorder }

// NewRecorder returns a recorder that reports as the operator.
func NewRecorder(mgr ctrl.Manager) Recorder { return Recorder{mgr.GetEventRecorder(Operator)} }

// startReasons are the reasons that every new resource passes through. They cause no warning unless
// the resource was Ready before.
var startReasons = []string{v1alpha1.ReasonBrokersNotReady, v1alpha1.ReasonPartitionsNotReady}

// ReadyChanged records an event if the reason of condition Ready has changed: of type Warning,
// unless the condition is True or the resource is starting for the first time. A changed message
// alone records nothing: messages contain numbers of partitions, and each new number would be an
// event.
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

// Warning records an event of type Warning. format and values make its message.
func (r Recorder) Warning(object runtime.Object, reason, action, format string, values ...any) {
	r.recorder.Eventf(object, nil, corev1.EventTypeWarning, reason, action, format, values...)
}
