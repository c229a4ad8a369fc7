package controllers

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// earlierListeners is the schema of spec.listeners in earlier versions.
var earlierListeners = apiextensionsv1.JSONSchemaProps{
	Type:    "object",
	Default: &apiextensionsv1.JSON{Raw: []byte("{}")},
	Properties: map[string]apiextensionsv1.JSONSchemaProps{"port": {
		Type: "integer", Format: "int32", Default: &apiextensionsv1.JSON{Raw: []byte("9092")},
	}},
}

// setListenersSchema replaces the schema of spec.listeners, and returns the present schema.
func setListenersSchema(
	listeners apiextensionsv1.JSONSchemaProps) (before apiextensionsv1.JSONSchemaProps) {
	GinkgoHelper()
	crds, err := client.New(config, client.Options{Scheme: extensionsScheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := crds.Get(context.Background(),
			client.ObjectKey{Name: "logclusters.heartwood.dev"}, crd); err != nil {
			return err
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		before = spec.Properties["listeners"]
		spec.Properties["listeners"] = listeners
		return crds.Update(context.Background(), crd)
	})).To(Succeed())
	return before
}

// storedCluster reads LogCluster main without decoding its fields.
func (f *fixture) storedCluster(g Gomega) *unstructured.Unstructured {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LogCluster"))
	return get(g, f, "main", cluster)
}

var _ = Describe("A LogCluster of an earlier version", func() {
	It("keeps its listener, and gets a list when all brokers decode it", func() {
		f := newFixture()
		present := setListenersSchema(earlierListeners)
		DeferCleanup(func() { setListenersSchema(present) })
		Eventually(func(g Gomega) {
			cluster := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "main", "namespace": f.namespace},
				"spec": map[string]any{"brokers": int64(1),
					"listeners": map[string]any{"port": int64(19092)}},
			}}
			cluster.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LogCluster"))
			g.Expect(api.Create(context.Background(), cluster)).To(Succeed())
		}).Should(Succeed())
		setListenersSchema(present)
		invalid := f.storedCluster(Default)
		invalid.SetName("other")
		invalid.SetResourceVersion("")
		Eventually(func() error { // until the API server uses the schema
			return api.Create(context.Background(), invalid.DeepCopy(), client.DryRunAll)
		}).Should(MatchError(ContainSubstring("must be of type array")))

		By("reading and writing the object while brokers of the earlier version run")
		object := map[string]any{"port": int64(19092)}
		Expect(f.storedCluster(Default).Object["spec"]).To(HaveKeyWithValue("listeners", object))
		Eventually(func(g Gomega) {
			g.Expect(get(g, f, "main-bootstrap",
				&corev1.Service{}).Spec.Ports[0].Port).To(Equal(int32(19092)))
			g.Expect(get(g, f, "main", &v1alpha1.LogCluster{}).Status.Bootstrap).
				To(HaveSuffix(":19092"))
		}).Should(Succeed())
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"adminApi": "ReadOnly"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Patch(context.Background(), f.storedCluster(Default),
			client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		Eventually(func(g Gomega) { // the operator wrote the status
			stored := f.storedCluster(g)
			g.Expect(stored.Object["status"]).To(HaveKeyWithValue("observedGeneration",
				stored.GetGeneration()))
		}).Should(Succeed())
		Expect(f.storedCluster(Default).Object["spec"]).To(HaveKeyWithValue("listeners", object))

		By("completing the rolling update")
		Eventually(func(g Gomega) {
			brokers := get(g, f, "main-broker", &appsv1.StatefulSet{})
			brokers.Status = appsv1.StatefulSetStatus{ObservedGeneration: brokers.Generation,
				CurrentRevision: "a", UpdateRevision: "a"}
			g.Expect(api.Status().Update(context.Background(), brokers)).To(Succeed())
			g.Expect(f.storedCluster(g).Object["spec"]).To(HaveKeyWithValue("listeners",
				[]any{map[string]any{"name": "kafka", "port": int64(19092), "type": "Internal"}}))
		}).Should(Succeed())
		Expect(get(Default, f, "main", &v1alpha1.LogCluster{}).Spec.AdminAPI).
			To(Equal(v1alpha1.AdminReadOnly))
	})
})

// extensionsScheme returns a scheme with the kind CustomResourceDefinition.
func extensionsScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
	return scheme
}
