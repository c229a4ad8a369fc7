package watch

import (
	"maps"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// AnnotationsChanged drops updates that change no annotation with a relevant name, for example
// renewals of Leases.
func AnnotationsChanged(relevant func(name string) bool) predicate.Predicate {
	values := func(object client.Object) map[string]string {
		annotations := maps.Clone(object.GetAnnotations())
		maps.DeleteFunc(annotations, func(name, _ string) bool { return !relevant(name) })
		return annotations
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(values(e.ObjectOld), values(e.ObjectNew))
	}}
}

// EndpointsChanged drops updates of Leases that change no listener's endpoint.
var EndpointsChanged = AnnotationsChanged(func(name string) bool {
	return strings.HasPrefix(name, v1alpha1.AnnotationEndpointPrefix)
})

// RegistrationChanged drops updates of Leases that do not change the given field of the broker's
// registration, for example renewals of the Lease.
func RegistrationChanged[T comparable](field func(v1alpha1.Registration) T) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return field(v1alpha1.ReadRegistration(e.ObjectOld)) !=
			field(v1alpha1.ReadRegistration(e.ObjectNew))
	}}
}
