package controllers

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("A broker's rack", func() {
	var f *fixture
	rackOf := func(g Gomega, broker int32) string {
		return get(g, f, v1alpha1.BrokerLeaseName("main", broker),
			&coordinationv1.Lease{}).Annotations[v1alpha1.AnnotationRack]
	}
	// runs creates a node with labels, and on this node the pod of a broker that renews its Lease.
	runs := func(broker int32, labels map[string]string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-", Labels: labels}}
		Expect(api.Create(context.Background(), node)).To(Succeed())
		Cleanup(f.t, func() { Expect(api.Delete(context.Background(), node)).To(Succeed()) })
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BrokerLeaseName("main", broker),
				Labels: map[string]string{v1alpha1.LabelCluster: "main"}},
			Spec: corev1.PodSpec{NodeName: node.Name,
				Containers: []corev1.Container{{Name: brokerstate.BrokerContainer,
					Image: "image"}}},
		}
		f.create(pod)
		f.renew(broker, "holder", 1, "disk", validThroughout)
		f.runIn(broker, pod.UID)
	}
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		f.create(&v1alpha1.LogCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec:       v1alpha1.LogClusterSpec{Brokers: 3, RackKey: "example.com/room"},
		})
	})

	It("is its node's label, and replicas are spread across racks", func(t *testing.T) {
		for broker, room := range []string{"east", "east", "west"} {
			runs(int32(broker),
				map[string]string{"example.com/room": room, corev1.LabelTopologyZone: "another"})
			f.eventuallyRenewing(func(g Gomega) {
				g.Expect(rackOf(g, int32(broker))).To(Equal(room))
			}, int32(broker))
		}
		holder := *get(Default, f, v1alpha1.BrokerLeaseName("main", 2),
			&coordinationv1.Lease{}).Spec.HolderIdentity
		Expect(holder).To(Equal("holder"), "the holder of the Lease is unchanged")
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions = 4
			spec.Replicas = new(int32(2))
		})
		Eventually(func(g Gomega) {
			assignments := f.assignments(g)
			g.Expect(assignments).To(HaveLen(4))
			for _, a := range assignments {
				g.Expect(a.Replicas).To(ContainElement(int32(2)),
					"broker 2 is the only broker in rack west: %v", a.Replicas)
			}
		}).Should(Succeed())
		spread := func(g Gomega) string {
			cluster := get(g, f, "main", &v1alpha1.LogCluster{})
			condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionSpread)
			g.Expect(condition).NotTo(BeNil())
			return condition.Reason
		}
		Eventually(spread).Should(Equal(v1alpha1.ReasonSpread))
		f.topic("narrow", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions, spec.Replicas = 1, new(int32(2))
			spec.InitialReplicas = []v1alpha1.InitialReplicas{{Replicas: []int32{0, 1}}}
		})
		Eventually(spread).Should(Equal(v1alpha1.ReasonReplicasNotSpread))
	})

	It("is the label of its pod, if the pod has it", func(t *testing.T) {
		runs(0, map[string]string{"example.com/room": "of-the-node"})
		change(f, v1alpha1.BrokerLeaseName("main", 0), &corev1.Pod{},
			func(pod *corev1.Pod) { pod.Labels["example.com/room"] = "east" })
		Eventually(func(g Gomega) { g.Expect(rackOf(g, 0)).To(Equal("east")) }).Should(Succeed())
	})

	It("is awaited by topics that are created with their LogCluster", func(t *testing.T) {
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions, spec.Replicas = 4, new(int32(2))
		})
		f.topic("everywhere", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		waits := func(g Gomega) {
			g.Expect(f.assignments(g)).To(And(HaveLen(1), HaveKey("everywhere/0")))
		}
		for broker, room := range []string{"east", "west", "east"} {
			f.expectProblem("orders", v1alpha1.ReasonUnassigned, "racks")
			Eventually(waits).Should(Succeed())
			Consistently(waits, "500ms").Should(Succeed())
			runs(int32(broker), map[string]string{"example.com/room": room})
		}
		f.eventuallyRenewing(func(g Gomega) {
			assignments := f.assignments(g)
			g.Expect(assignments).To(HaveLen(5))
			for name, a := range assignments {
				g.Expect(a.Replicas).To(ContainElement(int32(1)),
					"%s: broker 1 is the only broker in rack west: %v", name, a.Replicas)
			}
		}, 0, 1, 2)
	})

	It("is not awaited on nodes without labels", func(t *testing.T) {
		f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(2)) })
		runs(0, nil)
		f.eventuallyRenewing(func(g Gomega) { g.Expect(f.assignments(g)).To(HaveLen(1)) }, 0)
	})

	It("is removed when the node has no such label", func(t *testing.T) {
		runs(0, nil)
		f.annotate(0, map[string]string{v1alpha1.AnnotationRack: "of-the-previous-node"})
		f.eventuallyRenewing(func(g Gomega) { g.Expect(rackOf(g, 0)).To(BeEmpty()) }, 0)
	})
})
