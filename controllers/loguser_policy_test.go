package controllers

import (
	"context"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// applyPolicy creates the policy in a file of config/admission, for one namespace only. It deletes
// the policy at the end of the spec.
func (f *fixture) applyPolicy(file string) {
	content, err := os.ReadFile("../config/admission/" + file)
	Expect(err).NotTo(HaveOccurred())
	for _, document := range strings.Split(string(content), "\n---\n") {
		object := &unstructured.Unstructured{}
		Expect(yaml.UnmarshalStrict([]byte(document), object)).To(Succeed())
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			Expect(unstructured.SetNestedMap(object.Object, map[string]any{
				"matchLabels": map[string]any{"kubernetes.io/metadata.name": f.namespace},
			}, "spec", "matchResources", "namespaceSelector")).To(Succeed())
		}
		Expect(api.Create(context.Background(), object)).To(Succeed())
		Cleanup(f.t, func() { Expect(api.Delete(context.Background(), object)).To(Succeed()) })
	}
}

var _ = Describe("A broker", func() {
	It("may change only the ACLs and quotas of LogUsers of its cluster", func(t *testing.T) {
		f := newFixture(t)
		account := "system:serviceaccount:" + f.namespace + ":main-broker"
		f.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "broker"},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group},
				Resources: []string{"logusers"}, Verbs: []string{"create", "patch"}}}})
		f.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "broker"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "broker"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind,
				Name: account}}})
		f.applyPolicy("logusers.yaml")
		as := rest.CopyConfig(config)
		as.Impersonate.UserName = account
		broker, err := client.New(as, client.Options{Scheme: api.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		user := func(name, cluster string,
			kind v1alpha1.UserAuthenticationType) *v1alpha1.LogUser {
			return &v1alpha1.LogUser{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace},
				Spec: v1alpha1.LogUserSpec{Cluster: cluster,
					Authentication: v1alpha1.UserAuthentication{Type: kind}}}
		}
		ctx := context.Background()
		// A new policy takes effect in the API server only after a moment.
		Eventually(func() error {
			return broker.Create(ctx, user("a", "other", v1alpha1.UserExternal), client.DryRunAll)
		}).Should(MatchError(ContainSubstring("only LogUsers of its own LogCluster")))
		Expect(broker.Create(ctx, user("a", "main", v1alpha1.UserScram), client.DryRunAll)).
			To(MatchError(ContainSubstring("only LogUsers of type External")))
		Expect(broker.Create(ctx, user("a", "main", v1alpha1.UserExternal))).To(Succeed())

		patch := func(change func(*v1alpha1.LogUser)) error {
			before := get(Default, f, "a", &v1alpha1.LogUser{})
			after := before.DeepCopy()
			change(after)
			return broker.Patch(ctx, after, client.MergeFrom(before))
		}
		Expect(patch(func(u *v1alpha1.LogUser) {
			u.Spec.ACLs = []v1alpha1.ACL{{Resource: v1alpha1.ACLResource{Type: v1alpha1.ACLTopic,
				Name: "a"}, Operations: []v1alpha1.ACLOperation{v1alpha1.ACLRead}}}
		})).To(Succeed())
		Expect(patch(func(u *v1alpha1.LogUser) {
			u.Spec.Authentication = v1alpha1.UserAuthentication{Type: v1alpha1.UserScram,
				PasswordFrom: &v1alpha1.SecretKey{Name: "other", Key: "token"}}
		})).To(MatchError(ContainSubstring("only acls and quotas")))
		Expect(patch(func(u *v1alpha1.LogUser) {
			u.Annotations = map[string]string{v1alpha1.AnnotationRotate: "1"}
		})).To(MatchError(ContainSubstring("may not change the metadata")))
	})
})
