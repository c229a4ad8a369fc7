package conditions

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestProgressFollowsTheOtherConditions(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: reason + "!"}
	}
	ready := Ready("up")
	restarting := condition(v1alpha1.ConditionRollingOut, metav1.ConditionTrue,
		v1alpha1.ReasonRestarting)
	for _, test := range []struct {
		name         string
		conditions   []metav1.Condition
		want, reason string // type of the existing condition, and its reason
	}{
		{"all is well", []metav1.Condition{ready}, "", ""},
		{"brokers start", []metav1.Condition{NotReady(v1alpha1.ReasonBrokersNotReady, "0 of 3")},
			v1alpha1.ConditionReconciling, v1alpha1.ReasonBrokersNotReady},
		{"a rolling update", []metav1.Condition{ready, restarting},
			v1alpha1.ConditionReconciling, v1alpha1.ReasonRestarting},
		{"a rolling update outside of its window", []metav1.Condition{ready,
			condition(v1alpha1.ConditionRollingOut, metav1.ConditionTrue,
				v1alpha1.ReasonOutsideWindow)}, "", ""},
		{"a broker is down for a moment", []metav1.Condition{ready,
			condition(v1alpha1.ConditionReplicated, metav1.ConditionFalse,
				v1alpha1.ReasonUnderReplicated)}, "", ""},
		{"a reassignment", []metav1.Condition{ready, condition(v1alpha1.ConditionReplicated,
			metav1.ConditionFalse, v1alpha1.ReasonReassigning)},
			v1alpha1.ConditionReconciling, v1alpha1.ReasonReassigning},
		{"a refused Topic", []metav1.Condition{NotReady(v1alpha1.ReasonTopicNameTaken, "taken")},
			v1alpha1.ConditionStalled, v1alpha1.ReasonTopicNameTaken},
		{"a rolling update beside an object that is refused", []metav1.Condition{restarting,
			condition(v1alpha1.ConditionApplied, metav1.ConditionFalse,
				v1alpha1.ReasonApplyFailed)},
			v1alpha1.ConditionStalled, v1alpha1.ReasonApplyFailed},
	} {
		for _, before := range []string{"", v1alpha1.ConditionReconciling,
			v1alpha1.ConditionStalled} {
			all := slices.Clone(test.conditions)
			if before != "" {
				all = append(all, condition(before, metav1.ConditionTrue, "Earlier"))
			}
			SetProgress(&all, 7)
			for _, kind := range []string{v1alpha1.ConditionReconciling,
				v1alpha1.ConditionStalled} {
				got := meta.FindStatusCondition(all, kind)
				if (got != nil) != (kind == test.want) {
					t.Errorf("%s, after %q: condition %s is %v", test.name, before, kind, got)
				} else if got != nil && (got.Status != metav1.ConditionTrue ||
					got.Reason != test.reason || got.ObservedGeneration != 7) {
					t.Errorf("%s, after %q: got %+v", test.name, before, got)
				}
			}
		}
	}
}
