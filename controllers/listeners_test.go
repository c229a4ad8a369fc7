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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/internal/operator/render"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// runsOn creates a node with an external address, and the pod of a broker on this node. The broker
// renews its Lease.
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

	// endpoint returns broker 0's endpoint at a listener, read from its Lease.
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
})
