package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/internal/operator/render"
	. "heartwood.dev/heartwood/test/kit/specs"
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
	crds, err := client.New(config, client.Options{Scheme: extensionsScheme()})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error { // the API server writes the status of the same object
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := crds.Get(context.Background(),
			client.ObjectKey{Name: "logclusters.heartwood.dev"}, crd); err != nil {
			return err
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		before = spec.Properties["listeners"]
		spec.Properties["listeners"] = listeners
		return crds.Update(context.Background(), crd)
	}).Should(Succeed())
	return before
}

// storedCluster reads LogCluster main without decoding its fields.
func (f *fixture) storedCluster(g Gomega) *unstructured.Unstructured {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LogCluster"))
	return get(g, f, "main", cluster)
}

var _ = Describe("A LogCluster of an earlier version", func() {
	ItAlone("keeps its listener, and gets a list when all brokers decode it", func(t *testing.T) {
		f := newFixture(t)
		present := setListenersSchema(earlierListeners)
		Cleanup(t, func() { setListenersSchema(present) })
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

		t.Log("reading and writing the object while brokers of the earlier version run")
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

		t.Log("completing the rolling update")
		f.revision("a")
		f.brokerPod(0, "a")
		Eventually(func(g Gomega) {
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

// runsOn creates a node with an external address, and on this node the pod of a broker that renews
// its Lease.
func (f *fixture) runsOn(broker int32, address string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	Expect(api.Create(context.Background(), node)).To(Succeed())
	Cleanup(f.t, func() { Expect(api.Delete(context.Background(), node)).To(Succeed()) })
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP,
		Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: address}}
	Expect(api.Status().Update(context.Background(), node)).To(Succeed())
	f.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BrokerLeaseName("main", broker),
			Labels: map[string]string{v1alpha1.LabelCluster: "main"}},
		Spec: corev1.PodSpec{NodeName: node.Name,
			Containers: []corev1.Container{{Name: brokerstate.BrokerContainer,
				Image: "image"}}},
	})
	f.renew(broker, "holder", 1, "disk", validThroughout)
}

var _ = Describe("The listeners of a LogCluster", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	// endpoint returns the endpoint of broker 0 at a listener, in its Lease.
	endpoint := func(g Gomega, listener string) string {
		return f.lease(g, 0).Annotations[v1alpha1.AnnotationEndpointPrefix+listener]
	}

	It("have addresses that clients outside the Kubernetes cluster reach", func(t *testing.T) {
		f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: v1alpha1.LogClusterSpec{Brokers: 1, Listeners: v1alpha1.Listeners{
				{Name: "kafka", Port: 9092},
				{Name: "out", Port: 9094, Type: v1alpha1.ListenerNodePort},
				{Name: "lb", Port: 9095, Type: v1alpha1.ListenerLoadBalancer},
				{Name: "route", Port: 9096, Type: v1alpha1.ListenerTLSRoute,
					TLS:        &v1alpha1.ListenerTLS{},
					Advertised: &v1alpha1.Advertised{Host: "b{id}.example.com"}},
			}}})
		f.runsOn(0, "203.0.113.9")
		f.eventuallyRenewing(func(g Gomega) {
			g.Expect(endpoint(g, "kafka")).To(Equal(
				"main-broker-0.main-brokers." + f.namespace + ".svc:9092"))
			port := get(g, f, "main-out-0", &corev1.Service{}).Spec.Ports[0].NodePort
			g.Expect(port).To(BeNumerically(">", 0))
			g.Expect(endpoint(g, "out")).To(Equal(fmt.Sprintf("203.0.113.9:%d", port)))
			g.Expect(endpoint(g, "route")).To(Equal("b0.example.com:443"))
		}, 0)
		expectReason(f.clusterConditions(), v1alpha1.ConditionListenersReady,
			v1alpha1.ReasonAddressPending, "Listener lb has no address on brokers [0].")

		t.Log("assigning an address to the load balancer")
		Eventually(func(g Gomega) {
			service := get(g, f, "main-lb-0", &corev1.Service{})
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
				{Hostname: "lb.example.com"}}
			g.Expect(api.Status().Update(context.Background(), service)).To(Succeed())
		}).Should(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(endpoint(g, "lb")).To(Equal("lb.example.com:9095"))
		}).Should(Succeed())
		expectReason(f.clusterConditions(), v1alpha1.ConditionListenersReady,
			v1alpha1.ReasonListenersReady)

		t.Log("showing the addresses to users")
		Eventually(func(g Gomega) {
			outside := endpoint(g, "out")
			status := get(g, f, "main", &v1alpha1.LogCluster{}).Status
			g.Expect(status.Listeners).To(Equal([]v1alpha1.ListenerStatus{
				{Name: "kafka", Type: v1alpha1.ListenerInternal, Bootstrap: status.Bootstrap},
				{Name: "out", Type: v1alpha1.ListenerNodePort, Bootstrap: outside},
				{Name: "lb", Type: v1alpha1.ListenerLoadBalancer, Bootstrap: "lb.example.com:9095"},
				{Name: "route", Type: v1alpha1.ListenerTLSRoute, Bootstrap: "b0.example.com:443"}}))
			g.Expect(f.column(g, "logclusters", "main", "External")).To(Equal(outside))
			g.Expect(f.column(g, "logclusters", "main", "Pressure")).To(Equal("EnoughSpace"))
		}).Should(Succeed())
	})

	It("without encryption are named by the condition", func(t *testing.T) {
		f.secured("", v1alpha1.Listener{Name: "plain", Port: 9092,
			Authentication: []v1alpha1.Authentication{
				{Type: v1alpha1.AuthenticationScramSha256}}})
		expectReason(f.clusterConditions(), v1alpha1.ConditionListenersReady,
			v1alpha1.ReasonAddressPending, "Listener plain has no TLS")
	})

	It("name the clients that fail to authenticate", func(t *testing.T) {
		answer := atomic.Pointer[report.FailingClients]{}
		answer.Store(&report.FailingClients{Clients: []report.FailingClient{{Listener: "plain",
			Address: "10.0.0.1", User: "alice", Blocked: true}}})
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter,
			request *http.Request) {
			if request.URL.Path != "/api/v1/failing-clients" {
				http.NotFound(out, request)
				return
			}
			_ = json.NewEncoder(out).Encode(answer.Load())
		}))
		t.Cleanup(server.Close)
		hosts.set(render.HTTPAddress("main", f.namespace, 0), server.Listener.Addr().String())
		f.secured("", v1alpha1.Listener{Name: "plain", Port: 9092,
			MaxAuthenticationFailures: new(int32(3)), Authentication: []v1alpha1.Authentication{
				{Type: v1alpha1.AuthenticationScramSha256}}})
		expectReason(f.clusterConditions(), v1alpha1.ConditionClientsFailing,
			v1alpha1.ReasonClientsBlocked, `user "alice" from 10.0.0.1 at listener plain (blocked)`)
		answer.Store(&report.FailingClients{})
		expectReason(f.clusterConditions(), v1alpha1.ConditionClientsFailing,
			v1alpha1.ReasonNoFailures)
	})

	It("with the same port are not applied, and refused where the policy is installed",
		func(t *testing.T) {
			f.secured("", v1alpha1.Listener{Name: "a", Port: 9092},
				v1alpha1.Listener{Name: "b", Port: 9092})
			expectReason(f.clusterConditions(), v1alpha1.ConditionListenersReady,
				v1alpha1.ReasonAddressPending, "listeners a and b have the same port 9092")
			Expect(api.Get(context.Background(), client.ObjectKey{Namespace: f.namespace,
				Name: "main-broker"}, &appsv1.StatefulSet{})).NotTo(Succeed())

			f.applyPolicy("logclusters.yaml")
			other := &v1alpha1.LogCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: f.namespace},
				Spec: v1alpha1.LogClusterSpec{Brokers: 1, Listeners: v1alpha1.Listeners{
					{Name: "a", Port: 9092}, {Name: "b", Port: 9094}, {Name: "c", Port: 9094}}}}
			var err error
			Eventually(func() error { // the API server needs a moment to enforce a new policy
				err = api.Create(context.Background(), other.DeepCopy(), client.DryRunAll)
				return err
			}).Should(MatchError(ContainSubstring(
				"two listeners have the port 9094: choose another port for one of them")))
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			other.Spec.Listeners[2].Port = 9095
			Expect(api.Create(context.Background(), other, client.DryRunAll)).To(Succeed())
		})
})
