package status

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// volumesMax is the maximum number of volumes in the message of condition StoragePressure.
const volumesMax = 20

// storageCondition returns condition StoragePressure, with the worst level as its reason. Its
// message names the brokers under pressure, worst first, and the action that the worst level
// requires.
func storageCondition(brokers []v1alpha1.BrokerStatus) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionStoragePressure,
		Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonEnoughSpace,
		Message: "No volume is fuller than spec.storage.pressure.warnPercent."}
	var affected []string
	for _, known := range slices.Backward(summary.PressureLevels) {
		for i := range brokers {
			v := brokers[i].Volume
			if v == nil || v.Pressure != known.Level {
				continue
			}
			if len(affected) == 0 {
				condition.Status, condition.Reason = metav1.ConditionTrue, known.Level
				condition.Message = known.Effect
			}
			affected = append(affected, summary.DescribeVolume(brokers[i].ID, v))
		}
	}
	if more := len(affected) - volumesMax; more > 0 {
		affected = append(affected[:volumesMax], fmt.Sprintf("%d further brokers", more))
	}
	if len(affected) > 0 {
		condition.Message = strings.Join(affected, "; ") + ". " + condition.Message
	}
	return condition
}

// pressureRose returns condition StoragePressure if its level has increased, otherwise nil. An
// increase requires an event.
func pressureRose(before, after []metav1.Condition) *metav1.Condition {
	rank := func(conditions []metav1.Condition) int {
		found := meta.FindStatusCondition(conditions, v1alpha1.ConditionStoragePressure)
		if found == nil {
			return -1
		}
		return slices.IndexFunc(summary.PressureLevels,
			func(known struct{ Level, Effect string }) bool { return known.Level == found.Reason })
	}
	if rank(after) <= rank(before) {
		return nil
	}
	return meta.FindStatusCondition(after, v1alpha1.ConditionStoragePressure)
}
