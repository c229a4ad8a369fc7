package controllers

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

// ready is condition Ready with status True.
func ready(message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: message,
	}
}

// notReady is condition Ready with status False.
func notReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse,
		Reason: reason, Message: message}
}

// announcer makes events of what users must know.
type announcer struct{ recorder recorder.EventRecorder }

func newAnnouncer(mgr ctrl.Manager) announcer { return announcer{mgr.GetEventRecorder(fieldOwner)} }

// starting are reasons that every resource passes through when it is made: nothing to be warned of,
// unless it was Ready before.
var starting = []string{v1alpha1.ReasonBrokersNotReady, v1alpha1.ReasonPartitionsNotReady}

// changed makes an event when condition Ready has another reason than before: a Warning unless it
// is True or at its first start. The reason decides, not the message: messages count partitions,
// and each count would be an event.
func (a announcer) changed(object runtime.Object, before, after []metav1.Condition) {
	old, now := meta.FindStatusCondition(before, v1alpha1.ConditionReady),
		meta.FindStatusCondition(after, v1alpha1.ConditionReady)
	// The same reason again is no news.
	if now == nil || old != nil && old.Reason == now.Reason {
		return
	}
	kind := corev1.EventTypeWarning
	if now.Status == metav1.ConditionTrue || old == nil && slices.Contains(starting, now.Reason) {
		kind = corev1.EventTypeNormal
	}
	a.recorder.Eventf(object, nil, kind, now.Reason, "Reconcile", "%s", now.Message)
}

// failed makes an event of what the API server refused: a user may have to clear the way, or give
// the room.
func (a announcer) failed(object runtime.Object, err error) {
	a.recorder.Eventf(object, nil, corev1.EventTypeWarning, v1alpha1.EventApplyFailed, "Apply",
		"%s", err.Error())
}
