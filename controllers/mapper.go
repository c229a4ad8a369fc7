package controllers

import (
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Mapper knows the resources of the kinds that controllers use, for a manager's MapperProvider. By
// default a manager asks the API server for that, so it cannot be made while that is away: an
// operator that starts then would end again and again, and Kubernetes would wait longer and longer
// before it starts it once more, also when the API server is back.
func Mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, of := range []struct {
		group schema.GroupVersion
		kinds []string
		scope meta.RESTScope
	}{
		{v1alpha1.GroupVersion, []string{"LogCluster", "Topic", "Partition"},
			meta.RESTScopeNamespace},
		{corev1.SchemeGroupVersion, []string{"Service", "ServiceAccount", "Pod"},
			meta.RESTScopeNamespace},
		{corev1.SchemeGroupVersion, []string{"Node"}, meta.RESTScopeRoot},
		{appsv1.SchemeGroupVersion, []string{"StatefulSet"}, meta.RESTScopeNamespace},
		{coordinationv1.SchemeGroupVersion, []string{"Lease"}, meta.RESTScopeNamespace},
		{policyv1.SchemeGroupVersion, []string{"PodDisruptionBudget"}, meta.RESTScopeNamespace},
		{rbacv1.SchemeGroupVersion, []string{"Role", "RoleBinding"}, meta.RESTScopeNamespace},
	} {
		for _, kind := range of.kinds {
			mapper.Add(of.group.WithKind(kind), of.scope)
			// by which caches of single namespaces ask
			mapper.Add(of.group.WithKind(kind+"List"), of.scope)
		}
	}
	return mapper, nil
}
