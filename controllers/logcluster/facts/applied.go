package facts

import (
	appsv1 "k8s.io/api/apps/v1"

	"heartwood.dev/heartwood/internal/operator/claims"
)

// Applied is what a reconciliation has applied, besides the Facts, which do not contain it.
type Applied struct {
	Volumes claims.State // after the claims were resized, with the restarts that this requires
	// Brokers is the StatefulSet after it was applied, of which the Facts may contain an earlier
	// version; nil if it was not applied.
	Brokers *appsv1.StatefulSet
}

// isIn reports whether Facts contain the StatefulSet as it was applied.
func (a Applied) isIn(s *Facts) bool {
	return a.Brokers == nil || a.Brokers.UID == s.Brokers.UID &&
		s.Brokers.Generation >= a.Brokers.Generation
}
