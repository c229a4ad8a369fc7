package render

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// roleBinding binds the brokers' Role to their ServiceAccount.
func roleBinding(cluster *v1alpha1.LogCluster) *rbacv1.RoleBinding {
	name := BrokersName(cluster.Name)
	return &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1",
			Kind: "RoleBinding"},
		ObjectMeta: metadata(cluster, name),
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name,
			Namespace: cluster.Namespace}},
	}
}
