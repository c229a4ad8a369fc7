package envtest

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/test/kit/await"
)

// AwaitRule waits until the API server grants a user a rule of a new Role. This takes a moment,
// because the API server authorizes with a cache of Roles and RoleBindings, which may not contain
// the new ones yet.
func AwaitRule(t testing.TB, config *rest.Config, user, namespace string,
	policyRule *rbacv1.PolicyRule) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	resource, subresource, _ := strings.Cut(policyRule.Resources[0], "/")
	attributes := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: policyRule.Verbs[0],
		Group: policyRule.APIGroups[0], Resource: resource, Subresource: subresource}
	if len(policyRule.ResourceNames) > 0 {
		attributes.Name = policyRule.ResourceNames[0]
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &attributes}}
	await.For(t, func() string {
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review,
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.Allowed {
			return ""
		}
		return fmt.Sprintf("user %s has the right: %+v", user, attributes)
	})
}
