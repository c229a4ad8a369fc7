package controllers

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("The format level", func() {
	var f *fixture
	report := func(broker, level int32) {
		change(f, v1alpha1.BrokerLeaseName("main", broker), &coordinationv1.Lease{},
			func(lease *coordinationv1.Lease) {
				v1alpha1.ChangeRegistration(lease, func(r *v1alpha1.Registration) {
					r.FormatLevel = level
				})
			})
	}
	status := func(g Gomega) v1alpha1.LogClusterStatus {
		return get(g, f, "main", &v1alpha1.LogCluster{}).Status
	}
	specify := func(level *int32) {
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.FormatLevel = level
		})
	}
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		f.cluster(2)
		f.revision("first")
		for id := range int32(2) {
			f.renew(id, "broker", 1, "disk", validThroughout)
			f.brokerPod(id, "first")
			report(id, 1)
		}
		expectReason(f.clusterConditions(), v1alpha1.ConditionVersionSkew,
			v1alpha1.ReasonCompatible)
		Eventually(func(g Gomega) { g.Expect(status(g).FormatLevel).To(Equal(int32(1))) }).
			Should(Succeed())
	})

	It("rises a day after the last broker supports it, and not after a downgrade", func(t *testing.T) {
		report(0, 2)
		report(1, 2)
		Eventually(func(g Gomega) {
			s := status(g)
			g.Expect(s.FormatLevel).To(Equal(int32(1)))
			g.Expect(s.FormatLevelRaiseTime).NotTo(BeNil())
			g.Expect(s.FormatLevelRaiseTime.Time).To(BeTemporally("~", time.Now().Add(24*time.Hour),
				10*time.Minute))
			g.Expect(s.Brokers[0].FormatLevel).To(Equal(int32(2)))
		}).Should(Succeed())
		report(1, 1)
		Eventually(func(g Gomega) { g.Expect(status(g).FormatLevelRaiseTime).To(BeNil()) }).
			Should(Succeed())
	})

	It("rises to the specified level, and holds up a version that does not support it",
		func(t *testing.T) {
			specify(new(int32(2)))
			expectReason(f.clusterConditions(), v1alpha1.ConditionVersionSkew,
				v1alpha1.ReasonFormatLevelRefused, "not all brokers support more than level 1")
			report(0, 2)
			report(1, 3)
			Eventually(func(g Gomega) { g.Expect(status(g).FormatLevel).To(Equal(int32(2))) }).
				Should(Succeed())

			t.Log("lowering it, which is refused")
			specify(new(int32(1)))
			expectReason(f.clusterConditions(), v1alpha1.ConditionVersionSkew,
				v1alpha1.ReasonFormatLevelRefused, "a level cannot be lowered")
			specify(new(int32(2)))
			expectReason(f.clusterConditions(), v1alpha1.ConditionVersionSkew,
				v1alpha1.ReasonCompatible)

			t.Log("running an earlier version on a new disk")
			report(1, 1)
			expectReason(f.clusterConditions(), v1alpha1.ConditionVersionSkew,
				v1alpha1.ReasonFormatLevelUnsupported, "Brokers [1]", "Set spec.image")
			change(f, "main-broker-1", &corev1.Pod{}, func(pod *corev1.Pod) {
				pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "second"
			})
			f.revision("second")
			f.expectRollout(v1alpha1.ReasonVersionSkew, "Brokers with an outdated pod: 1")
			f.expectPods(0, 1)
			Expect(status(Default).FormatLevel).To(Equal(int32(2)))
		})
})
