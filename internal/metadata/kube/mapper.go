package kube

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/restmapper"
)

// newMapper returns a REST mapper for the kinds that a store reads and writes.
func newMapper() meta.RESTMapper {
	return restmapper.New(
		restmapper.Namespaced(v1alpha1.GroupVersion, "LogCluster", "Topic", "PartitionSet",
			"LogUser"),
		restmapper.Namespaced(corev1.SchemeGroupVersion, "Secret"),
		restmapper.Namespaced(coordinationv1.SchemeGroupVersion, "Lease"),
	)
}
