package logcluster

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// pressureLevels are the levels of storage pressure that condition StoragePressure reports, from
// the mildest to the worst, each with its effect.
var pressureLevels = []struct{ level, effect string }{
	{v1alpha1.PressureWarn, "Free space, or make space, before the brokers refuse records."},
	{v1alpha1.PressureClean, "The cleaner reclaims as much as it can. Free space, or make space, " +
		"before the brokers refuse records."},
	{v1alpha1.PressureReject, "These brokers refuse produce requests with a retriable error and " +
		"get no new replicas; reads and committed offsets continue. Shorten retentions, delete " +
		"records, or add brokers."},
	{v1alpha1.PressureReserve, "These brokers refuse all records, also replicated ones; the rest " +
		"of their volumes is for the cleaner. Shorten retentions, delete records, or add brokers."},
}

// storageCondition returns condition StoragePressure, with the worst level as its reason.
func storageCondition(brokers []v1alpha1.BrokerStatus) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionStoragePressure,
		Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonEnoughSpace,
		Message: "No volume is fuller than spec.storage.pressure.warn."}
	for _, known := range pressureLevels {
		var affected []string
		for i := range brokers {
			if v := brokers[i].Volume; v != nil && v.Pressure == known.level {
				affected = append(affected, describeVolume(brokers[i].ID, v))
			}
		}
		if len(affected) == 0 {
			continue
		}
		condition.Status, condition.Reason = metav1.ConditionTrue, known.level
		condition.Message = fmt.Sprintf("%s. %s", strings.Join(affected, ", "), known.effect)
	}
	return condition
}

// describeVolume describes the volume of a broker in a condition. The numbers change only with the
// used share in percent.
func describeVolume(id int32, v *v1alpha1.BrokerVolume) string {
	return fmt.Sprintf("Broker %d uses %d%% of %s, of which the cleaner can reclaim %s", id,
		v.UsedPercent, binary(v.TotalBytes), binary(v.ReclaimableBytes))
}

// binary formats a number of bytes with a unit, such as 1.5Gi.
func binary(bytes int64) string {
	unit, name := int64(1<<20), "Mi"
	if bytes >= 1<<30 {
		unit, name = 1<<30, "Gi"
	}
	text := fmt.Sprintf("%.1f", float64(bytes)/float64(unit))
	return strings.TrimSuffix(text, ".0") + name
}

// pressureRose returns condition StoragePressure if its level is higher than before, which is worth
// an event, or nil.
func pressureRose(before, after []metav1.Condition) *metav1.Condition {
	rank := func(conditions []metav1.Condition) int {
		found := meta.FindStatusCondition(conditions, v1alpha1.ConditionStoragePressure)
		if found == nil {
			return -1
		}
		return slices.IndexFunc(pressureLevels,
			func(known struct{ level, effect string }) bool { return known.level == found.Reason })
	}
	if rank(after) <= rank(before) {
		return nil
	}
	return meta.FindStatusCondition(after, v1alpha1.ConditionStoragePressure)
}
