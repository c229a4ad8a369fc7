package controllers

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("A Topic", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	It("has an assignment for each of its partitions, spread across brokers and sets",
		func(t *testing.T) {
			f.cluster(3)
			topic := f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 6 })
			Eventually(func(g Gomega) {
				held := map[int32]int{}
				assignments := f.assignments(g)
				g.Expect(assignments).To(HaveLen(6))
				for name, a := range assignments {
					key := parse(name)
					g.Expect(key.Topic).To(Equal("orders"))
					set, _ := f.setOf(g, key)
					g.Expect(set.Labels).To(HaveKeyWithValue(v1alpha1.LabelCluster, "main"))
					g.Expect(set.Spec.Cluster).To(Equal("main"))
					g.Expect(set.Spec.Assignments).To(HaveLen(1))
					g.Expect(a.Replicas).To(HaveLen(1))
					held[a.Replicas[0]]++
				}
				g.Expect(held).To(Equal(map[int32]int{0: 2, 1: 2, 2: 2}))
				status := get(g, f, "orders", topic).Status
				g.Expect(status.Partitions).To(Equal(int32(6)))
				g.Expect(status.TopicID).To(HaveLen(22))
				for _, a := range assignments {
					g.Expect(status.TopicID).To(HavePrefix(a.Tag))
				}
				g.Expect(status.ObservedGeneration).To(Equal(topic.Generation))
				g.Expect(status.Problems).To(HaveLen(5))
			}).Should(Succeed())
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
				v1alpha1.ReasonPartitionsNotReady,
				"0 of 6 partitions", "partitions 0 1 2 3 4 ...")
		})

	It("grows without moving its partitions", func(t *testing.T) {
		f.cluster(3)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 2 })
		var before map[string]partitionset.Assignment
		Eventually(
			func(g Gomega) { before = f.assignments(g); g.Expect(before).To(HaveLen(2)) },
		).Should(Succeed())
		change(f, "orders", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.Partitions = 5 })
		Eventually(func(g Gomega) { g.Expect(f.assignments(g)).To(HaveLen(5)) }).Should(Succeed())
		after := f.assignments(Default)
		for name, a := range before {
			Expect(after).To(HaveKeyWithValue(name, a))
		}
	})

	It("of a new LogCluster is Ready once clients can connect, and stays Ready", func(t *testing.T) {
		f.connectable(false)
		f.cluster(1)
		f.renew(0, "a", 1, "disk", validThroughout)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.TopicName = "Orders" })
		f.serve("orders/0")
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonBootstrapPending, "Service main-bootstrap has no ready endpoint")
		f.connectable(true)
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		Eventually(func(g Gomega) {
			g.Expect(f.column(g, "topics", "orders", "Topic")).To(Equal("Orders"))
		}).Should(Succeed())

		t.Log("restarting the only broker")
		f.connectable(false)
		f.topic("later", nil)
		f.serve("later/0")
		expectReason(f.topicConditions("later"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	It("whose name collides with that of an older one is refused until that one is gone",
		func(t *testing.T) {
			f.cluster(1)
			f.renew(0, "a", 1, "disk", validThroughout)
			f.topic("a.b", nil)
			f.serve("a.b/0")
			expectReason(f.topicConditions("a.b"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
			f.topic("other", func(spec *v1alpha1.TopicSpec) { spec.TopicName = "a_b" })
			expectReason(f.topicConditions("other"), v1alpha1.ConditionReady,
				v1alpha1.ReasonTopicNameCollides, "The Kafka name a_b collides with a.b")
			Expect(f.assignments(Default)).NotTo(HaveKey("other/0"))
			Expect(api.Delete(context.Background(), get(Default, f, "a.b", &v1alpha1.Topic{}))).To(
				Succeed())
			f.serve("other/0")
			expectReason(f.topicConditions("other"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		})

	It("is Ready, with an event, when the leader of every partition serves", func(t *testing.T) {
		f.cluster(1)
		f.renew(0, "a", 1, "disk", validThroughout)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 2 })
		f.serve("orders/0")
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionsNotReady, "1 of 2", "partitions 1.")
		f.serve("orders/1")
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		f.expectEvent("orders", "Normal", v1alpha1.ReasonReady)
		Eventually(func(g Gomega) {
			g.Expect(get(g, f, "orders",
				&v1alpha1.Topic{}).Status.ReadyPartitions).To(Equal(int32(2)))
		}).Should(Succeed())
	})

	It("and its LogCluster have a metric of the last successful reconciliation until they are deleted",
		func(t *testing.T) {
			const name = "heartwood_operator_reconcile_last_success_timestamp_seconds"
			cluster, topic := f.cluster(1), f.topic("orders", nil)
			Eventually(func(g Gomega) {
				values := series(g, name, "namespace", f.namespace)
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
					f.namespace)).To(BeEmpty())
			}).Should(Succeed())
		})

	It(
		"with more replicas than brokers is refused, says what to do, and gets no assignments",
		func(t *testing.T) {
			f.cluster(2)
			f.topic("orders", func(spec *v1alpha1.TopicSpec) {
				spec.Partitions, spec.Replicas = 2, new(int32(3))
			})
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
				v1alpha1.ReasonNotEnoughBrokers, "lower spec.replicas")
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReplicated,
				v1alpha1.ReasonUnderReplicated, "2 of 2 partitions are under-replicated: 0 1.")
			f.expectColumns(v1alpha1.ReasonNotEnoughBrokers, 2)
			f.expectEvent("orders", "Warning", v1alpha1.ReasonNotEnoughBrokers)
			Expect(f.assignments(Default)).To(BeEmpty())
			change(f, "orders", &v1alpha1.Topic{},
				func(topic *v1alpha1.Topic) { topic.Spec.Replicas = new(int32(2)) })
			Eventually(
				func(g Gomega) { g.Expect(f.assignments(g)).To(HaveLen(2)) },
			).Should(Succeed())
			f.expectColumns(v1alpha1.ReasonPartitionsNotReady, 2)
		},
	)

	It("reports its effective compression", func(t *testing.T) {
		f.cluster(1)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Compression = &v1alpha1.Compression{Type: "zstd", Level: new(int32(19))}
		})
		compression := func(g Gomega) *v1alpha1.CompressionStatus {
			return get(g, f, "orders", &v1alpha1.Topic{}).Status.Compression
		}
		Eventually(compression).Should(Equal(&v1alpha1.CompressionStatus{
			Type: "zstd", Level: new(int32(19)), Encoder: "zstd best (as levels 10 to 22)",
		}))
		change(f, "orders", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.Compression = nil })
		Eventually(compression).Should(Equal(&v1alpha1.CompressionStatus{Type: "producer"}))
	})

	It("waits for its LogCluster", func(t *testing.T) {
		f.topic("orders", nil)
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonClusterNotFound, "no LogCluster main", "create it")
		Expect(f.assignments(Default)).To(BeEmpty())
		f.cluster(1)
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionsNotReady)
	})

	It("is refused while it contradicts the defaults of its LogCluster", func(t *testing.T) {
		cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: v1alpha1.LogClusterSpec{
				Brokers: 1,
				TopicDefaults: &v1alpha1.TopicDefaults{TopicSettings: v1alpha1.TopicSettings{
					Compaction: &v1alpha1.Compaction{MaxLag: &metav1.Duration{Duration: 1e9}},
				}},
			}}
		f.create(cluster)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Compaction = &v1alpha1.Compaction{MinLag: &metav1.Duration{Duration: 3600e9}}
		})
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonInvalidSettings, "spec.compaction.minLag")
		change(f, "main", cluster,
			func(cluster *v1alpha1.LogCluster) { cluster.Spec.TopicDefaults = nil })
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartitionsNotReady)
	})

	It("shares a Kafka name with another Topic: the older one has it until it is deleted",
		func(t *testing.T) {
			f.cluster(1)
			name := func(spec *v1alpha1.TopicSpec) { spec.TopicName = "Orders_1" }
			first := f.topic("a-first", name)
			// If both Topics are created in the same second, the first one still counts as older, because
			// its name sorts first.
			f.topic("b-second", name)
			expectReason(f.topicConditions("b-second"), v1alpha1.ConditionReady,
				v1alpha1.ReasonTopicNameTaken, "a-first", "Orders_1", "delete one")
			expectReason(f.topicConditions("a-first"), v1alpha1.ConditionReady,
				v1alpha1.ReasonPartitionsNotReady)
			Expect(api.Delete(context.Background(), first)).To(Succeed())
			expectReason(f.topicConditions("b-second"), v1alpha1.ConditionReady,
				v1alpha1.ReasonPartitionsNotReady)
		})

	It("has its reclaimPolicy in its assignments", func(t *testing.T) {
		f.cluster(1)
		topic := f.topic("orders",
			func(spec *v1alpha1.TopicSpec) { spec.ReclaimPolicy = v1alpha1.ReclaimDelete })
		policy := func(g Gomega) partitionset.Reclaim {
			entry := f.entry(g, "orders/0")
			g.Expect(entry.Assignment).NotTo(BeNil())
			return entry.Assignment.Reclaim
		}
		for _, step := range []struct {
			policy v1alpha1.ReclaimPolicy
			want   partitionset.Reclaim
		}{{v1alpha1.ReclaimDelete, partitionset.Delete},
			{v1alpha1.ReclaimRetain, partitionset.Retain},
			{v1alpha1.ReclaimDelete, partitionset.Delete}} {
			change(f, "orders", topic,
				func(topic *v1alpha1.Topic) { topic.Spec.ReclaimPolicy = step.policy })
			Eventually(policy).Should(Equal(step.want))
		}
	})

	It("with reclaimPolicy Delete is removed with its entries, and a new Topic starts again",
		func(t *testing.T) {
			f.cluster(1)
			f.renew(0, "a", 1, "disk", validThroughout)
			topic := f.topic("orders",
				func(spec *v1alpha1.TopicSpec) { spec.ReclaimPolicy = v1alpha1.ReclaimDelete })
			f.serve("orders/0")
			before := f.state(Default, "orders/0")
			Expect(api.Delete(context.Background(), topic)).To(Succeed())
			Eventually(func(g Gomega) {
				g.Expect(f.entry(g, "orders/0")).To(Equal(partitionset.Entry{}))
			}).Should(Succeed())
			f.topic("orders", nil)
			f.serve("orders/0")
			after := f.state(Default, "orders/0")
			Expect(after.LeaderEpoch).To(Equal(int32(1)))
			Expect(after.ReplicaIncarnations).NotTo(Equal(before.ReplicaIncarnations))
		})

	It(
		"with reclaimPolicy Retain leaves its entries, and a new Topic of the same name continues with them",
		func(t *testing.T) {
			f.cluster(3)
			for broker := range int32(3) {
				f.renew(broker, "a", 1, "disk", validThroughout)
			}
			topic := f.topic("orders", nil)
			f.serve("orders/0")
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
			before := f.entry(Default, "orders/0")

			Expect(api.Delete(context.Background(), topic)).To(Succeed())
			Eventually(func(g Gomega) {
				retired := f.entry(g, "orders/0")
				g.Expect(retired.Assignment.Reclaim).To(Equal(partitionset.Retained))
				g.Expect(retired.State.Leader).To(Equal(int32(-1)))
				g.Expect(retired.State.LeaderEpoch).To(Equal(before.State.LeaderEpoch + 1))
			}).Should(Succeed())

			f.topic("orders", nil)
			f.serve("orders/0")
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
			after := f.entry(Default, "orders/0")
			Expect(after.Assignment.Replicas).To(Equal(before.Assignment.Replicas),
				"the same broker has the records")
			Expect(after.Assignment.Tag).NotTo(Equal(before.Assignment.Tag))
			Expect(after.State.ReplicaIncarnations).To(Equal(before.State.ReplicaIncarnations))
			Expect(after.State.LeaderEpoch).To(Equal(before.State.LeaderEpoch + 2))
		},
	)

	It("continues with the records although it was created again at once", func(t *testing.T) {
		f.cluster(3)
		for broker := range int32(3) {
			f.renew(broker, "a", 1, "disk", validThroughout)
		}
		topic := f.topic("orders", nil)
		f.serve("orders/0")
		before := f.entry(Default, "orders/0")
		Expect(api.Delete(context.Background(), topic)).To(Succeed())
		f.topic("orders", nil)
		Eventually(func(g Gomega) {
			after := f.entry(g, "orders/0")
			g.Expect(after.Assignment.Tag).NotTo(Equal(before.Assignment.Tag))
			g.Expect(after.Assignment.Replicas).To(Equal(before.Assignment.Replicas))
			g.Expect(after.State.LeaderEpoch).To(BeNumerically(">", before.State.LeaderEpoch))
			g.Expect(after.State.Leader).To(Equal(before.State.Leader))
		}).Should(Succeed())
	})

	It("does not adopt the partitions of another LogCluster's Topic", func(t *testing.T) {
		former := &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{Name: "former-0"},
			Spec: v1alpha1.PartitionSetSpec{Cluster: "former", Count: 1,
				Assignments: map[string]string{"orders/0": "7 abcdefgh retained"}}}
		f.create(former)
		f.cluster(1)
		f.renew(0, "a", 1, "disk", validThroughout)
		f.topic("orders", nil)
		f.serve("orders/0")
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		Expect(f.replicas(Default, "orders/0")).To(Equal([]int32{0}))
		Expect(get(Default, f, "former-0", former).Spec.Assignments).To(HaveLen(1))
	})

	It("leaves nothing behind with its LogCluster, except retained partitions", func(t *testing.T) {
		cluster := f.cluster(1)
		topic := f.topic("orders", nil)
		Eventually(func(g Gomega) { g.Expect(f.assignments(g)).To(HaveLen(1)) }).Should(Succeed())
		Expect(api.Delete(context.Background(), topic)).To(Succeed())
		Expect(api.Delete(context.Background(), cluster)).To(Succeed())
		Eventually(func(g Gomega) {
			left := &v1alpha1.PartitionSetList{}
			g.Expect(api.List(context.Background(), left,
				client.InNamespace(f.namespace))).To(Succeed())
			g.Expect(left.Items).To(HaveLen(1))
			g.Expect(left.Items[0].Spec.Assignments).To(HaveLen(1))
			g.Expect(left.Items[0].Spec.Assignments["orders/0"]).To(HaveSuffix(" retained"))
		}).Should(Succeed())
	})

	ItAlone("causes no writes while nothing changes", func(t *testing.T) {
		f.cluster(1)
		f.renew(0, "a", 1, "disk", validThroughout)
		f.revision("first") // needed because otherwise a rolling update is applied again at intervals
		f.brokerPod(0, "first")
		f.topic("orders", nil)
		f.serve("orders/0")
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		// Wait for the last expected write, which is the LogCluster's status.
		Eventually(func(g Gomega) {
			status := get(g, f, "main", &v1alpha1.LogCluster{}).Status
			g.Expect([]int32{status.Topics, status.Partitions,
				status.UnderReplicatedPartitions}).To(Equal([]int32{1, 1, 0}))
			// Also wait for the last object that the operator renders.
			get(g, f, "main-broker", &appsv1.StatefulSet{})
		}).Should(Succeed())
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReplicated,
			v1alpha1.ReasonInSync)
		expectReason(f.clusterConditions(), v1alpha1.ConditionScaled, v1alpha1.ReasonScaled)
		f.expectRollout(v1alpha1.ReasonComplete)

		// Each round changes a label of each resource, which triggers reconciliations. Earlier writes
		// that are still in progress may disturb the first rounds. After that, three rounds in a row must
		// cause no write.
		written, calm := writes.get(f.namespace), 0
		for round := 0; round < 20 && calm < 3; round++ {
			reconciles := map[string]float64{}
			for _, controller := range []string{"topic", "election", "assignment",
				"logcluster-status", "broker"} {
				reconciles[controller] = reconciled(Default, controller)
			}
			label := func(object client.Object) {
				object.SetLabels(map[string]string{"round": fmt.Sprint(round),
					v1alpha1.LabelCluster: "main"})
			}
			change(f, "orders", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) { label(topic) })
			set, _ := f.setOf(Default, parse("orders/0"))
			change(f, set.Name, set, func(set *v1alpha1.PartitionSet) { label(set) })
			f.renew(0, "a", 1, "disk", validThroughout)
			Eventually(func(g Gomega) {
				for controller, before := range reconciles {
					g.Expect(reconciled(g, controller)).To(BeNumerically(">", before), controller)
				}
			}).Should(Succeed())
			calm++
			if now := writes.get(f.namespace); now != written {
				written, calm = now, 0
			}
		}
		Expect(calm).To(Equal(3), "consecutive rounds without a write")
	})
})
