package controllers

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/reachability"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("A broker that is cut off from the other brokers", func() {
	var f *fixture
	// report plays a broker that renews its Lease and reports unreachable peers.
	report := func(broker int32, unreachable string) {
		change(f, v1alpha1.BrokerLeaseName("main", broker), &coordinationv1.Lease{},
			func(l *coordinationv1.Lease) {
				v1alpha1.ChangeRegistration(l, func(r *v1alpha1.Registration) {
					r.Unreachable = unreachable
				})
				l.Spec.RenewTime = new(metav1.NowMicro())
			})
	}
	isolated := func(g Gomega, broker int32) string {
		return f.lease(g, broker).Annotations[v1alpha1.AnnotationIsolated]
	}
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		f.cluster(3)
		for id := range int32(3) {
			f.renew(id, "holder", 1, "disk", validThroughout)
		}
		f.expectSeen(3)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		Eventually(func(g Gomega) {
			g.Expect(f.state(g, "orders/0").ISR).To(HaveLen(3))
		}).Should(Succeed())
		f.serve("orders/0")
	})

	It("loses its leaderships to brokers that reach each other, until it reaches them again",
		func(t *testing.T) {
			leader := f.state(Default, "orders/0").Leader
			others := []int32{(leader + 1) % 3, (leader + 2) % 3}
			report(others[0], reachability.Report{{Broker: leader, Epoch: 1}}.String())
			Consistently(func(g Gomega) { // one of two other brokers is not a majority
				g.Expect(f.state(g, "orders/0").Leader).To(Equal(leader))
				g.Expect(isolated(g, leader)).To(BeEmpty())
			}, "500ms").Should(Succeed())
			report(others[1], reachability.Report{{Broker: leader, Epoch: 1}}.String())
			Eventually(func(g Gomega) {
				state := f.state(g, "orders/0")
				g.Expect(state.Leader).To(BeElementOf(others))
				g.Expect(state.ISR).To(HaveLen(2))
				g.Expect(isolated(g, leader)).To(Equal("1"))
			}).Should(Succeed())
			f.expectEvent("main", "Warning", v1alpha1.EventBrokerIsolated)

			healed := time.Now()
			report(others[0], "")
			report(others[1], "")
			Eventually(func(g Gomega) {
				report(others[0], "") // brokers renew their Leases continuously
				g.Expect(isolated(g, leader)).To(BeEmpty())
			}).WithPolling(time.Second).Should(Succeed())
			Expect(time.Since(healed)).To(BeNumerically(">=", reachability.HealedAfter))
			f.expectEvent("main", "Normal", v1alpha1.EventBrokerReconnected)
		})

	It("stays as it is if reports concern an earlier broker epoch, or only one connection",
		func(t *testing.T) {
			leader := f.state(Default, "orders/0").Leader
			other := (leader + 1) % 3
			unchanged := func(g Gomega) {
				g.Expect(f.state(g, "orders/0").Leader).To(Equal(leader))
				for id := range int32(3) {
					g.Expect(isolated(g, id)).To(BeEmpty())
				}
			}
			for id := range int32(3) {
				report(id, "0:7,1:7,2:7")
			}
			Consistently(unchanged, "500ms").Should(Succeed())
			for id := range int32(3) {
				report(id, "")
			}
			report(other, reachability.Report{{Broker: leader, Epoch: 1}}.String())
			report(leader, reachability.Report{{Broker: other, Epoch: 1}}.String())
			Consistently(unchanged, "500ms").Should(Succeed())
		})
})
