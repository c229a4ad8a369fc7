package kube

import (
	"os"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// testPolicy checks that a broker with the permission to patch its LogCluster can change settings,
// but not other fields, such as the image that all brokers run.
func testPolicy(f *fixture) {
	account := "system:serviceaccount:" + f.namespace + ":demo-broker"
	f.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}})
	f.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName,
			Name: account}},
	})
	f.applyClusterPolicy()
	restricted := rest.CopyConfig(f.config)
	restricted.Impersonate.UserName = account
	b := f.run(0, restricted)
	b.until("up", up(0))
	patch := func(change func(*v1alpha1.LogCluster)) error {
		before := &v1alpha1.LogCluster{}
		f.get("demo", before)
		changed := before.DeepCopy()
		change(changed)
		return b.client.Patch(f.t.Context(), changed, client.MergeFrom(before), client.DryRunAll)
	}
	for what, change := range map[string]func(*v1alpha1.LogCluster){
		"image":      func(c *v1alpha1.LogCluster) { c.Spec.Image = "registry.example/other" },
		"brokers":    func(c *v1alpha1.LogCluster) { c.Spec.Brokers++ },
		"adminAPI":   func(c *v1alpha1.LogCluster) { c.Spec.AdminAPI = v1alpha1.AdminReadOnly },
		"annotation": func(c *v1alpha1.LogCluster) { c.Annotations = map[string]string{"a": "b"} },
	} {
		// Wait, because the API server needs a moment to enforce a new policy.
		await.Until(f.t, what+" rejected", func() bool {
			err := patch(change)
			return (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) &&
				strings.Contains(err.Error(), "a broker may ")
		})
	}
	if err := b.AlterCluster(f.t.Context(), metadata.ClusterChange{
		Properties: []metadata.PropertyChange{{Name: "group.max.size", Value: "7"},
			{Name: "num.partitions", Value: "3"}, {Name: "log.cleaner.threads", Value: "2"},
			{Name: "replica.lag.time.max.ms", Value: "2000"},
			{Name: "auto.create.topics.enable", Value: "true"}}}); err != nil {
		f.t.Error(err)
	}
}

// applyClusterPolicy creates the admission policy for LogClusters, restricted to one namespace.
func (f *fixture) applyClusterPolicy() {
	content, err := os.ReadFile("../../../config/admission/logclusters.yaml")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, document := range strings.Split(string(content), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			f.t.Fatal(err)
		}
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			only := map[string]any{
				"matchLabels": map[string]any{"kubernetes.io/metadata.name": f.namespace},
			}
			if err := unstructured.SetNestedMap(object.Object, only, "spec", "matchResources",
				"namespaceSelector"); err != nil {
				f.t.Fatal(err)
			}
		}
		if err := f.client.Create(f.t.Context(), object); err != nil {
			f.t.Fatal(err)
		}
	}
}
