package logcluster

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/skew"
	"heartwood.dev/heartwood/internal/version"
)

// skew returns the format level of the LogCluster and the skew of its versions. A broker that is
// down counts with the version that it ran last: it may return with it.
func (s *scope) skew(now time.Time) skew.Decision {
	in := skew.Input{Now: now, Operator: version.Version(), Level: s.cluster.Status.FormatLevel,
		Brokers: make([]skew.Broker, s.drain().brokers)}
	if at := s.cluster.Status.FormatLevelRaise; at != nil {
		in.RaiseAt = at.Time
	}
	if level := s.cluster.Spec.FormatLevel; level != nil {
		in.Spec = *level
	}
	for i := range s.leases {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(s.leases[i].Name)
		if ok && int(id) < len(in.Brokers) {
			annotations := s.leases[i].Annotations
			in.Brokers[id] = skew.Broker{Version: annotations[v1alpha1.AnnotationVersion],
				Level: v1alpha1.LeaseFormatLevel(annotations)}
		}
	}
	return skew.Decide(in)
}

// describeSkew adds the format level and condition VersionSkew to a status.
func describeSkew(status *v1alpha1.LogClusterStatus, d skew.Decision, generation int64) {
	status.FormatLevel, status.FormatLevelRaise = d.Level, nil
	if !d.RaiseAt.IsZero() {
		status.FormatLevelRaise = &metav1.Time{Time: d.RaiseAt.Truncate(time.Second)}
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
