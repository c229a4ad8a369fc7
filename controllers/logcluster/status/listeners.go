package status

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/watch"
)

// listenersCondition returns condition ListenersReady. Its message names the listeners without
// encryption on which clients authenticate.
func listenersCondition(s *facts.Facts) metav1.Condition {
	var pending, plain []string
	for _, listener := range s.Cluster.Spec.Listeners.OrDefault() {
		if missing := withoutEndpoint(s, listener.Name); len(missing) > 0 {
			pending = append(pending, fmt.Sprintf("Listener %s has no address on brokers %v.",
				listener.Name, missing))
		}
		if listener.TLS == nil && len(listener.Authentication) > 0 {
			plain = append(plain, fmt.Sprintf("Listener %s has no TLS: records are not encrypted, "+
				"and connections can be taken over.", listener.Name))
		}
	}
	condition := metav1.Condition{Type: v1alpha1.ConditionListenersReady,
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonListenersReady,
		Message: "All listeners have an address on every broker."}
	if err := s.Cluster.Spec.ValidatePeers(); err != nil {
		pending = append(pending, fmt.Sprintf("The listeners are invalid: %v.", err))
	}
	if len(pending) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonAddressPending
		condition.Message = strings.Join(pending, " ")
	}
	condition.Message = strings.Join(append([]string{condition.Message}, plain...), " ")
	return condition
}

// withoutEndpoint returns the brokers whose Leases contain no endpoint for a listener, sorted.
func withoutEndpoint(s *facts.Facts, listener string) []int32 {
	found := map[int32]bool{}
	for i := range s.Leases {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(s.Leases[i].Name)
		found[id] = ok && s.Leases[i].Annotations[v1alpha1.AnnotationEndpointPrefix+listener] != ""
	}
	var missing []int32
	for id := range s.Cluster.Spec.Brokers {
		if !found[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

// leaseChanged drops events for renewals of Leases. The status depends only on these parts of a
// Lease: the endpoints, the rack, the volume, the scrub and the versions.
var leaseChanged = predicate.Or(watch.EndpointsChanged,
	watch.AnnotationsChanged(func(name string) bool { return name == v1alpha1.AnnotationRack }),
	watch.RegistrationChanged(func(r v1alpha1.Registration) v1alpha1.Registration {
		return v1alpha1.Registration{Volume: r.Volume, Scrub: r.Scrub, Version: r.Version,
			FormatLevel: r.FormatLevel}
	}))
