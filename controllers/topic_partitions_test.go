package controllers

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("A Topic without a number of partitions", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	partitions := func(name string) func(Gomega) int32 {
		return func(g Gomega) int32 { return get(g, f, name, &v1alpha1.Topic{}).Spec.Partitions }
	}

	It("gets its LogCluster's default once: a later change affects new Topics only",
		func(t *testing.T) {
			cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
				Spec: v1alpha1.LogClusterSpec{Brokers: 3,
					TopicDefaults: &v1alpha1.TopicDefaults{Partitions: new(int32(4))}}}
			f.create(cluster)
			f.topic("orders", nil)
			f.topic("fixed", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 2 })
			Eventually(func(g Gomega) { g.Expect(f.assignments(g)).To(HaveLen(6)) }).Should(Succeed())
			Eventually(partitions("orders")).Should(Equal(int32(4)))

			change(f, "main", cluster, func(cluster *v1alpha1.LogCluster) {
				cluster.Spec.TopicDefaults.Partitions = new(int32(7))
			})
			// needed because otherwise the Topic may permanently get the previous default
			f.expectObserved()
			f.topic("later", nil)
			Eventually(func(g Gomega) { g.Expect(f.assignments(g)).To(HaveLen(13)) }).Should(Succeed())
			for name, want := range map[string]int32{"orders": 4, "fixed": 2, "later": 7} {
				Expect(partitions(name)(Default)).To(Equal(want), name)
			}
		})

	It("of __consumer_offsets gets the number that a broker would choose", func(t *testing.T) {
		f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: v1alpha1.LogClusterSpec{Brokers: 3,
				TopicDefaults: &v1alpha1.TopicDefaults{Partitions: new(int32(4))}}})
		f.topic("offsets",
			func(spec *v1alpha1.TopicSpec) { spec.TopicName = "__consumer_offsets" })
		Eventually(partitions("offsets")).Should(Equal(int32(50)))
	})

	It("waits for its LogCluster, and keeps its number when the field is removed", func(t *testing.T) {
		topic := f.topic("orders", nil)
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonClusterNotFound)
		Expect(partitions("orders")(Default)).To(BeZero())
		f.cluster(1)
		Eventually(partitions("orders")).Should(Equal(int32(1)))
		remove := client.RawPatch("application/merge-patch+json",
			[]byte(`{"spec": {"partitions": null}}`))
		Expect(api.Patch(t.Context(), topic, remove)).To(
			MatchError(ContainSubstring("partitions cannot be removed")))
	})
})

var _ = Describe("A Topic with initial replicas", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	// entries assigns a preferred leader and another broker to each partition. The order of the
	// brokers differs from the one that the operator would choose.
	entries := func(from, to int32) (all []v1alpha1.InitialReplicas) {
		for index := from; index < to; index++ {
			all = append(all, v1alpha1.InitialReplicas{Partition: index,
				Replicas: []int32{2, index % 2}})
		}
		return all
	}
	// expectUnmoved waits until count partitions are assigned as in entries. It checks that they were
	// never assigned in another way, because the first leaders may have records.
	expectUnmoved := func(topic string, count int32) {
		for index := range count {
			Eventually(func(g Gomega) {
				g.Expect(f.replicas(g, fmt.Sprintf("%s/%d", topic, index))).To(
					Equal([]int32{2, index % 2}))
			}).Should(Succeed())
		}
		Expect(moved.get(f.namespace)).To(BeZero(), "assignments that were changed")
	}

	It("has them in the first version of each assignment, however fast the Topics grow",
		func(t *testing.T) {
			f.cluster(3)
			for i := range 10 {
				name := fmt.Sprintf("orders-%d", i)
				topic := f.topic(name, func(spec *v1alpha1.TopicSpec) {
					spec.Partitions, spec.Replicas = 3, new(int32(2))
					spec.InitialReplicas = entries(0, 3)
				})
				for count := int32(4); count <= 6; count++ {
					change(f, name, topic, func(topic *v1alpha1.Topic) {
						topic.Spec.Partitions = count
						topic.Spec.InitialReplicas = entries(0, count)
					})
				}
			}
			for i := range 10 {
				expectUnmoved(fmt.Sprintf("orders-%d", i), 6)
			}
		})

	It("has its other partitions placed by the operator", func(t *testing.T) {
		f.cluster(3)
		f.register(3)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions, spec.Replicas = 4, new(int32(2))
			spec.InitialReplicas = entries(1, 2)
		})
		Eventually(func(g Gomega) {
			all := f.assignments(g)
			g.Expect(all).To(HaveLen(4))
			for _, a := range all {
				g.Expect(a.Replicas).To(HaveLen(2))
			}
		}).Should(Succeed())
		Expect(f.replicas(Default, "orders/1")).To(Equal([]int32{2, 1}))
	})

	It("is refused while a new partition is assigned to a broker that does not exist",
		func(t *testing.T) {
			f.cluster(2)
			topic := f.topic("orders", func(spec *v1alpha1.TopicSpec) {
				spec.Partitions, spec.Replicas = 1, new(int32(2))
				spec.InitialReplicas = entries(0, 1)
			})
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
				v1alpha1.ReasonInvalidInitialReplicas, "spec.initialReplicas[0].replicas",
				"broker 2 does not exist", "remove it")
			Expect(f.assignments(Default)).To(BeEmpty())
			change(f, "main", &v1alpha1.LogCluster{},
				func(cluster *v1alpha1.LogCluster) { cluster.Spec.Brokers = 3 })
			expectUnmoved("orders", 1)
			f.register(3)
			// Entries of existing partitions are no longer checked.
			change(f, "orders", topic, func(topic *v1alpha1.Topic) {
				topic.Spec.Partitions, topic.Spec.InitialReplicas[0].Replicas = 2, []int32{7, 8}
			})
			Eventually(func(g Gomega) { g.Expect(f.assignments(g)).To(HaveLen(2)) }).Should(Succeed())
			expectUnmoved("orders", 1)
		})
})
