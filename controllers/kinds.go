package controllers

import (
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/certificates"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/restmapper"
)

// Mapper is the MapperProvider of the operator's manager. It supports the kinds that the
// controllers use. It needs no request to the API server, so an operator can start while the API
// server is unavailable (see package restmapper).
func Mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return restmapper.New(
		restmapper.Namespaced(v1alpha1.GroupVersion, "LogCluster", "Topic", "PartitionSet",
			"LogUser"),
		restmapper.Namespaced(corev1.SchemeGroupVersion, "Service", "ServiceAccount", "Pod",
			"PersistentVolumeClaim", "Secret"),
		restmapper.ClusterScoped(corev1.SchemeGroupVersion, "Node", "PersistentVolume"),
		restmapper.ClusterScoped(storagev1.SchemeGroupVersion, "StorageClass"),
		restmapper.Namespaced(appsv1.SchemeGroupVersion, "StatefulSet"),
		restmapper.Namespaced(coordinationv1.SchemeGroupVersion, "Lease"),
		restmapper.Namespaced(discoveryv1.SchemeGroupVersion, "EndpointSlice"),
		restmapper.Namespaced(networkingv1.SchemeGroupVersion, "NetworkPolicy"),
		restmapper.Namespaced(policyv1.SchemeGroupVersion, "PodDisruptionBudget"),
		restmapper.Namespaced(certificates.Certificate.GroupVersion(),
			certificates.Certificate.Kind),
		restmapper.Namespaced(render.TLSRoute.GroupVersion(), render.TLSRoute.Kind),
		restmapper.Namespaced(rbacv1.SchemeGroupVersion, "Role", "RoleBinding"),
	), nil
}
