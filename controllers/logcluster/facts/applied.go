package facts

import (
	appsv1 "k8s.io/api/apps/v1"

	"heartwood.dev/heartwood/internal/operator/claims"
)

// Applied contains what a reconciliation has applied. Facts do not contain it.
type Applied struct {
	Volumes claims.State // state after the claims were resized, with the restarts that this requires
	// Brokers is the StatefulSet after it was applied; nil if it was not applied. Facts can contain an
	// earlier version of it.
	Brokers *appsv1.StatefulSet
}

// isIn reports whether the Facts already show the StatefulSet that was applied.
func (a Applied) isIn(s *Facts) bool {
	return a.Brokers == nil || a.Brokers.UID == s.Brokers.UID &&
		s.Brokers.Generation >= a.Brokers.Generation
}
