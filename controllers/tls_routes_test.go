package controllers

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// installTLSRoutes installs the kind TLSRoute until the end of the spec. It omits the Gateway API's
// validation rules.
func installTLSRoutes(t *testing.T) {
	scheme := runtime.NewScheme()
	Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
	crds, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	kind := render.TLSRoute
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "tlsroutes." + kind.Group, Annotations: map[string]string{
			"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: kind.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind,
				ListKind: kind.Kind + "List", Plural: "tlsroutes", Singular: "tlsroute"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: kind.Version,
				Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
						XPreserveUnknownFields: new(true)}}}}},
	}
	Expect(crds.Create(context.Background(), crd)).To(Succeed())
	Cleanup(t, func() { Expect(crds.Delete(context.Background(), crd)).To(Succeed()) })
}

var _ = Describe("A listener of type TLSRoute", func() {
	ItAlone("has a route for each broker until it is removed", func(t *testing.T) {
		route := v1alpha1.Listener{Name: "route", Port: 9096, Type: v1alpha1.ListenerTLSRoute,
			TLS: &v1alpha1.ListenerTLS{}, Gateway: &v1alpha1.Gateway{Name: "edge"},
			Advertised: &v1alpha1.Advertised{Host: "b{id}.example.com"}}
		f := newFixture(t)
		f.secured("", route)
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied,
			v1alpha1.ReasonApplyFailed, "the Gateway API v1.5 or later is not installed")
		installTLSRoutes(t)
		f.create(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "foreign",
				Labels: map[string]string{v1alpha1.LabelCluster: "main"}},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}})
		names := func(g Gomega, gvk schema.GroupVersionKind) (names []string) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk)
			g.Expect(api.List(context.Background(), list,
				client.InNamespace(f.namespace))).To(Succeed())
			for _, item := range list.Items {
				names = append(names, item.GetName())
			}
			return names
		}
		service := corev1.SchemeGroupVersion.WithKind("Service")
		Eventually(func(g Gomega) {
			f.advance(0) // needed because the queue otherwise retries only after a backoff
			g.Expect(names(g, render.TLSRoute)).To(ConsistOf("main-route-0", "main-route-1"))
			g.Expect(names(g, service)).To(ContainElement("main-route-1"))
		}).WithPolling(time.Second).Should(Succeed())

		t.Log("changing the type, which keeps the Services, and then removing the listener")
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Listeners[0].Gateway = nil
			cluster.Spec.Listeners[0].Type = v1alpha1.ListenerLoadBalancer
		})
		Eventually(func(g Gomega) {
			g.Expect(names(g, render.TLSRoute)).To(BeEmpty())
		}).Should(Succeed())
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Listeners = v1alpha1.Listeners{{Name: "tls", Port: 9093}}
		})
		Eventually(func(g Gomega) {
			g.Expect(names(g, service)).To(ConsistOf("foreign", "main-brokers", "main-bootstrap"))
		}).Should(Succeed())
	})
})
