package controllers

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

var _ = Describe("a Topic", func() {
	var w *world
	BeforeEach(func() { w = newWorld() })

	It("has a Partition for each of its partitions, spread over the brokers", func() {
		w.cluster(3)
		topic := w.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 6 })
		Eventually(func(g Gomega) {
			held := map[int32]int{}
			partitions := w.partitions(g)
			g.Expect(partitions).To(HaveLen(6))
			for _, partition := range partitions {
				g.Expect(partition.Name).To(Equal(fmt.Sprintf("orders-%d", partition.Spec.Index)))
				g.Expect(partition.Labels).To(HaveKeyWithValue(v1alpha1.LabelCluster, "main"))
				g.Expect(partition.Spec.Cluster).To(Equal("main"))
				g.Expect(partition.Spec.Topic).To(Equal("orders"))
				g.Expect(partition.Spec.Replicas).To(HaveLen(1))
				held[partition.Spec.Replicas[0]]++
			}
			g.Expect(held).To(Equal(map[int32]int{0: 2, 1: 2, 2: 2}))
			status := get(g, w, "orders", topic).Status
			g.Expect(status.Partitions).To(Equal(int32(6)))
			g.Expect(status.TopicID).To(HaveLen(22))
			g.Expect(status.ObservedGeneration).To(Equal(topic.Generation))
		}).Should(Succeed())
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionsNotReady,
			"0 of 6 partitions", "orders-0 orders-1 orders-2 orders-3 orders-4 ...")
	})

	It("grows, and its partitions stay where they are", func() {
		w.cluster(3)
		w.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 2 })
		var before []v1alpha1.Partition
		Eventually(
			func(g Gomega) { before = w.partitions(g); g.Expect(before).To(HaveLen(2)) },
		).Should(Succeed())
		change(w, "orders", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.Partitions = 5 })
		Eventually(func(g Gomega) { g.Expect(w.partitions(g)).To(HaveLen(5)) }).Should(Succeed())
		for _, partition := range before {
			Expect(get(Default, w, partition.Name,
				&v1alpha1.Partition{}).Spec).To(Equal(partition.Spec))
		}
	})

	It("is Ready when every partition's leader serves, and says so in an event", func() {
		w.cluster(1)
		w.renew(0, "a", 1, "disk", aliveForLong)
		w.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 2 })
		w.serve("orders-0")
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionsNotReady, "1 of 2", "orders-1")
		w.serve("orders-1")
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		w.expectEvent("orders", "Normal", v1alpha1.ReasonReady)
		Eventually(func(g Gomega) {
			g.Expect(get(g, w, "orders",
				&v1alpha1.Topic{}).Status.ReadyPartitions).To(Equal(int32(2)))
		}).Should(Succeed())
	})

	It("and its LogCluster have a metric of when they last succeeded, as long as they are there",
		func() {
			const name = "heartwood_operator_reconcile_last_success_timestamp_seconds"
			cluster, topic := w.cluster(1), w.topic("orders", nil)
			Eventually(func(g Gomega) {
				values := series(g, name, "namespace", w.namespace)
				g.Expect(values).To(HaveLen(2))
				for _, value := range values {
					g.Expect(time.Unix(int64(value), 0)).To(BeTemporally("~", time.Now(),
						time.Minute))
				}
			}).Should(Succeed())
			Expect(api.Delete(context.Background(), topic)).To(Succeed())
			Expect(api.Delete(context.Background(), cluster)).To(Succeed())
			Eventually(func(g Gomega) {
				g.Expect(series(g, name, "namespace",
					w.namespace)).To(BeEmpty())
			}).Should(Succeed())
		})

	It(
		"that asks for more replicas than there are brokers is refused with what to do, and makes nothing",
		func() {
			w.cluster(2)
			w.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
			expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady,
				v1alpha1.ReasonNotEnoughBrokers, "lower spec.replicas")
			w.expectEvent("orders", "Warning", v1alpha1.ReasonNotEnoughBrokers)
			Expect(w.partitions(Default)).To(BeEmpty())
			change(w, "orders", &v1alpha1.Topic{},
				func(topic *v1alpha1.Topic) { topic.Spec.Replicas = new(int32(2)) })
			Eventually(
				func(g Gomega) { g.Expect(w.partitions(g)).To(HaveLen(1)) },
			).Should(Succeed())
		},
	)

	It("says what really happens to its batches", func() {
		w.cluster(1)
		w.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Compression = &v1alpha1.Compression{Type: "zstd", Level: new(int32(19))}
		})
		compression := func(g Gomega) *v1alpha1.CompressionStatus {
			return get(g, w, "orders", &v1alpha1.Topic{}).Status.Compression
		}
		Eventually(compression).Should(Equal(&v1alpha1.CompressionStatus{
			Type: "zstd", Level: new(int32(19)), Encoder: "zstd best (as levels 10 to 22)",
		}))
		change(w, "orders", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.Compression = nil })
		Eventually(compression).Should(Equal(&v1alpha1.CompressionStatus{Type: "producer"}))
	})

	It("waits for its LogCluster", func() {
		w.topic("orders", nil)
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonClusterNotFound, "no LogCluster main", "make it")
		Expect(w.partitions(Default)).To(BeEmpty())
		w.cluster(1)
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionsNotReady)
	})

	It("is refused when it contradicts the defaults of its LogCluster, until they change", func() {
		cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: v1alpha1.LogClusterSpec{
				Brokers: 1,
				TopicDefaults: &v1alpha1.TopicSettings{
					Compaction: &v1alpha1.Compaction{MaxLag: &metav1.Duration{Duration: 1e9}},
				},
			}}
		w.make(cluster)
		w.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Compaction = &v1alpha1.Compaction{MinLag: &metav1.Duration{Duration: 3600e9}}
		})
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonInvalidSettings, "spec.compaction.minLag")
		change(w, "main", cluster,
			func(cluster *v1alpha1.LogCluster) { cluster.Spec.TopicDefaults = nil })
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionsNotReady)
	})

	It("gives a name to the older of two, and to the other once that is gone", func() {
		w.cluster(1)
		name := func(spec *v1alpha1.TopicSpec) { spec.TopicName = "Orders_1" }
		first := w.topic("a-first", name)
		// Ages are told in seconds, and equal ones by name: it is older in any case.
		w.topic("b-second", name)
		expectReason(w.topicConditions("b-second"), v1alpha1.ConditionReady,
			v1alpha1.ReasonTopicNameTaken, "a-first", "Orders_1", "delete one")
		expectReason(w.topicConditions("a-first"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionsNotReady)
		Expect(api.Delete(context.Background(), first)).To(Succeed())
		expectReason(w.topicConditions("b-second"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionsNotReady)
	})

	It("owns its Partitions as long as its records go with it", func() {
		w.cluster(1)
		topic := w.topic("orders",
			func(spec *v1alpha1.TopicSpec) { spec.ReclaimPolicy = v1alpha1.ReclaimDelete })
		owned := func(g Gomega) bool {
			return metav1.IsControlledBy(get(g, w, "orders-0", &v1alpha1.Partition{}), topic)
		}
		Eventually(owned).Should(BeTrue())
		change(w, "orders", topic,
			func(topic *v1alpha1.Topic) { topic.Spec.ReclaimPolicy = v1alpha1.ReclaimRetain })
		Eventually(owned).Should(BeFalse())
		change(w, "orders", topic,
			func(topic *v1alpha1.Topic) { topic.Spec.ReclaimPolicy = v1alpha1.ReclaimDelete })
		Eventually(owned).Should(BeTrue())
	})

	It(
		"that retains its records leaves its Partitions, and one of the same name goes on from there",
		func() {
			w.cluster(3)
			for broker := range int32(3) {
				w.renew(broker, "a", 1, "disk", aliveForLong)
			}
			topic := w.topic("orders", nil)
			w.serve("orders-0")
			expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
			before := get(Default, w, "orders-0", &v1alpha1.Partition{})

			Expect(api.Delete(context.Background(), topic)).To(Succeed())
			expectReason(w.partitionConditions("orders-0"), v1alpha1.ConditionReady,
				v1alpha1.ReasonRetained)
			retired := get(Default, w, "orders-0", &v1alpha1.Partition{})
			Expect(retired.Status.Leader).To(Equal(int32(-1)))
			Expect(retired.Status.LeaderEpoch).To(Equal(before.Status.LeaderEpoch + 1))

			w.topic("orders", nil)
			w.serve("orders-0")
			expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
			after := get(Default, w, "orders-0", &v1alpha1.Partition{})
			Expect(after.UID).To(Equal(before.UID))
			Expect(after.Spec).To(Equal(before.Spec), "the broker that has the records")
			Expect(after.Status.LeaderEpoch).To(Equal(before.Status.LeaderEpoch + 2))
		},
	)

	It("does not take over the Partitions of an earlier Topic of another LogCluster", func() {
		w.make(&v1alpha1.Partition{
			ObjectMeta: metav1.ObjectMeta{Name: "orders-0"},
			Spec: v1alpha1.PartitionSpec{Cluster: "former", Topic: "orders",
				Replicas: []int32{0}},
		})
		w.cluster(1)
		w.topic("orders", nil)
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionNameTaken, "orders-0")
		Expect(api.Delete(context.Background(),
			get(Default, w, "orders-0", &v1alpha1.Partition{}))).To(Succeed())
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionsNotReady)
	})

	It("is only looked at while nothing changes", func() {
		w.cluster(1)
		w.renew(0, "a", 1, "disk", aliveForLong)
		w.topic("orders", nil)
		w.serve("orders-0")
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		Eventually(func(g Gomega) { // the LogCluster's status is the last to know
			status := get(g, w, "main", &v1alpha1.LogCluster{}).Status
			g.Expect([]int32{status.Topics, status.Partitions,
				status.UnderReplicated}).To(Equal([]int32{1, 1, 0}))
			// the last of the objects that run the cluster
			get(g, w, "main-broker", &appsv1.StatefulSet{})
		}).Should(Succeed())
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReplicated,
			v1alpha1.ReasonInSync)
		expectReason(w.clusterConditions(), v1alpha1.ConditionScaled, v1alpha1.ReasonScaled)

		// The first rounds let what was still on its way arrive; how long that takes is the
		// machine's to say.
		written, calm := writes.get(w.namespace), 0
		for round := 0; round < 20 && calm < 3; round++ {
			reconciles := map[string]float64{}
			for _, controller := range []string{"topic", "partition", "logcluster-status",
				"broker"} {
				reconciles[controller] = reconciled(Default, controller)
			}
			label := func(object client.Object) {
				object.SetLabels(map[string]string{"round": fmt.Sprint(round),
					v1alpha1.LabelCluster: "main"})
			}
			change(w, "orders", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) { label(topic) })
			change(w, "orders-0", &v1alpha1.Partition{},
				func(partition *v1alpha1.Partition) { label(partition) })
			w.renew(0, "a", 1, "disk", aliveForLong)
			Eventually(func(g Gomega) {
				for controller, before := range reconciles {
					g.Expect(reconciled(g, controller)).To(BeNumerically(">", before), controller)
				}
			}).Should(Succeed())
			calm++
			if now := writes.get(w.namespace); now != written {
				written, calm = now, 0
			}
		}
		Expect(calm).To(Equal(3), "rounds in a row in which nothing was written")
	})
})
