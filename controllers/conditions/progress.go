package conditions

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// cause describes a condition that makes a resource Stalled or Reconciling: its type, its status,
// and its reasons. If reasons is nil, every reason counts.
type cause struct {
	kind    string
	status  metav1.ConditionStatus
	reasons []string
}

// stalling contains the states that last until a user acts, from the most to the least specific.
var stalling = []cause{
	{v1alpha1.ConditionReady, metav1.ConditionFalse, []string{v1alpha1.ReasonNotEnoughBrokers,
		v1alpha1.ReasonTopicNameTaken, v1alpha1.ReasonTopicNameCollides,
		v1alpha1.ReasonInvalidSettings, v1alpha1.ReasonInvalidInitialReplicas,
		v1alpha1.ReasonSecretNameTaken, v1alpha1.ReasonUserNameTaken,
		v1alpha1.ReasonPasswordNotFound, v1alpha1.ReasonNoListener,
		v1alpha1.ReasonInvalidPassword}},
	{v1alpha1.ConditionApplied, metav1.ConditionFalse, []string{v1alpha1.ReasonApplyFailed,
		v1alpha1.ReasonObjectNameTaken}},
	{v1alpha1.ConditionVersionSkew, metav1.ConditionTrue, nil},
	{v1alpha1.ConditionVolumeLost, metav1.ConditionTrue, []string{
		v1alpha1.ReasonWaitingForConsent, v1alpha1.ReasonLastInSyncReplica}},
	{v1alpha1.ConditionScaled, metav1.ConditionFalse, []string{v1alpha1.ReasonReplicasDoNotFit,
		v1alpha1.ReasonDisksDoNotFit}},
	{v1alpha1.ConditionDrained, metav1.ConditionFalse, []string{v1alpha1.ReasonDrainBlocked}},
	{v1alpha1.ConditionRollingOut, metav1.ConditionTrue, []string{v1alpha1.ReasonStuck}},
	{v1alpha1.ConditionReplicated, metav1.ConditionFalse, []string{
		v1alpha1.ReasonInvalidReassignment}},
}

// reconciling contains the states in which the operator is changing something. A replica that is
// out of sync because its broker is down is not one of them, because the operator has nothing to
// change.
var reconciling = []cause{
	{v1alpha1.ConditionReady, metav1.ConditionFalse, nil},
	{v1alpha1.ConditionRollingOut, metav1.ConditionTrue, []string{v1alpha1.ReasonRestarting,
		v1alpha1.ReasonObserving, v1alpha1.ReasonWaiting}},
	{v1alpha1.ConditionScaled, metav1.ConditionFalse, nil},
	{v1alpha1.ConditionDrained, metav1.ConditionFalse, nil},
	{v1alpha1.ConditionReplicated, metav1.ConditionFalse, []string{v1alpha1.ReasonReassigning}},
}

// SetProgress derives conditions Stalled and Reconciling from the other conditions, in the form
// that kstatus reads (sigs.k8s.io/cli-utils/pkg/kstatus). Each condition exists only while it is
// True, with the reason and the message of its cause. At most one of them exists, because kstatus
// uses the first one in the list.
func SetProgress(all *[]metav1.Condition, generation int64) {
	stalled := find(*all, stalling)
	set(all, v1alpha1.ConditionStalled, stalled, generation)
	if stalled != nil {
		meta.RemoveStatusCondition(all, v1alpha1.ConditionReconciling)
		return
	}
	set(all, v1alpha1.ConditionReconciling, find(*all, reconciling), generation)
}

// find returns the condition that matches the first possible cause, or nil if none matches.
func find(all []metav1.Condition, causes []cause) *metav1.Condition {
	for _, cause := range causes {
		condition := meta.FindStatusCondition(all, cause.kind)
		if condition != nil && condition.Status == cause.status &&
			(cause.reasons == nil || slices.Contains(cause.reasons, condition.Reason)) {
			return condition
		}
	}
	return nil
}

// set sets the condition of type kind to True with the reason and message of why. If why is nil, it
// removes the condition.
func set(all *[]metav1.Condition, kind string, why *metav1.Condition, generation int64) {
	if why == nil {
		meta.RemoveStatusCondition(all, kind)
		return
	}
	meta.SetStatusCondition(all, metav1.Condition{Type: kind, Status: metav1.ConditionTrue,
		Reason: why.Reason, Message: why.Message, ObservedGeneration: generation})
}
