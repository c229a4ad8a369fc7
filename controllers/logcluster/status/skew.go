package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/skew"
)

// describeSkew adds the format level and condition VersionSkew to a status.
func describeSkew(status *v1alpha1.LogClusterStatus, d skew.Decision, generation int64) {
	status.FormatLevel, status.FormatLevelRaiseTime = d.Level, nil
	if !d.RaiseAt.IsZero() {
		status.FormatLevelRaiseTime = &metav1.Time{Time: d.RaiseAt.Truncate(time.Second)}
	}
	condition := metav1.Condition{Type: v1alpha1.ConditionVersionSkew, Message: d.Message,
		Status: metav1.ConditionTrue, Reason: skewReasons[d.Kind], ObservedGeneration: generation}
	if d.Kind == skew.None {
		condition.Status = metav1.ConditionFalse
	}
	meta.SetStatusCondition(&status.Conditions, condition)
}

var skewReasons = map[skew.Kind]string{
	skew.None:        v1alpha1.ReasonCompatible,
	skew.Behind:      v1alpha1.ReasonBrokersBehind,
	skew.Refused:     v1alpha1.ReasonFormatLevelRefused,
	skew.Ahead:       v1alpha1.ReasonBrokersAhead,
	skew.Unsupported: v1alpha1.ReasonFormatLevelUnsupported,
}
