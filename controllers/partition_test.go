package controllers

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

var _ = Describe("A Partition", func() {
	var f *fixture
	expectLeader := func(leader, epoch int32) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			status := get(g, f, "orders-0", &v1alpha1.Partition{}).Status
			g.Expect([]int32{status.Leader, status.LeaderEpoch}).To(Equal([]int32{leader, epoch}))
		}).Should(Succeed())
	}
	BeforeEach(func() {
		f = newFixture()
		f.cluster(1)
		f.topic("orders", nil)
		expectReason(f.partitionConditions("orders-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonLeaderOffline, "[0]")
	})

	It(
		"has a leader as soon as its broker is up, is Ready when the leader serves, and goes offline when the Lease expires",
		func() {
			f.renew(0, "a", 1, "disk", validThroughout)
			expectLeader(0, 1)
			expectReason(f.partitionConditions("orders-0"), v1alpha1.ConditionReady,
				v1alpha1.ReasonLeaderStarting, "leader epoch 1")
			f.serve("orders-0")
			expectReason(f.partitionConditions("orders-0"), v1alpha1.ConditionReady,
				v1alpha1.ReasonReady)

			f.renew(0, "a", 1, "disk", time.Second) // no renewal follows, so the Lease expires
			expectLeader(-1, 2)
			expectReason(f.partitionConditions("orders-0"), v1alpha1.ConditionReady,
				v1alpha1.ReasonLeaderOffline, "serves again when")
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
				v1alpha1.ReasonPartitionsNotReady)

			f.renew(0, "b", 2, "disk", validThroughout)
			expectLeader(0, 3)
			isr := get(Default, f, "orders-0", &v1alpha1.Partition{}).Status.ISR
			Expect(isr).To(Equal([]v1alpha1.InSyncReplica{{Broker: 0, BrokerEpoch: 2,
				Directory: "disk"}}))

			By("the outage is measured")
			f.serve("orders-0")
			Eventually(measuredOutages).Should(BeNumerically(">", 0))
		},
	)

	It("loses its leader at once when the broker stops gracefully", func() {
		f.renew(0, "a", 1, "disk", validThroughout)
		expectLeader(0, 1)
		f.renew(0, "", 1, "disk", validThroughout)
		expectLeader(-1, 2)
	})

	It("loses its leader when the Lease is deleted", func() {
		f.renew(0, "a", 1, "disk", validThroughout)
		expectLeader(0, 1)
		lease := get(Default, f, v1alpha1.BrokerLeaseName("main", 0), &coordinationv1.Lease{})
		Expect(api.Delete(context.Background(), lease)).To(Succeed())
		expectLeader(-1, 2)
	})

	It("gets a new leader epoch with each broker epoch, even if the broker was never observed as down",
		func() {
			f.renew(0, "a", 1, "disk", validThroughout)
			expectLeader(0, 1)
			f.serve("orders-0")
			f.renew(0, "b", 2, "disk", validThroughout)
			expectLeader(0, 2)
			expectReason(f.partitionConditions("orders-0"), v1alpha1.ConditionReady,
				v1alpha1.ReasonLeaderStarting)
		})

	It("is not led by a broker with a replaced disk until a user accepts the data loss", func() {
		f.renew(0, "a", 1, "old-disk", validThroughout)
		expectLeader(0, 1)
		f.renew(0, "b", 2, "new-disk", validThroughout)
		expectLeader(-1, 2)
		expectReason(f.partitionConditions("orders-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonReplicaLost,
			"kubectl annotate partition orders-0 -n "+f.namespace+" "+
				v1alpha1.AnnotationAcceptDataLoss+"=new-disk")
		f.expectEvent("orders-0", "Warning", v1alpha1.ReasonReplicaLost)
		change(f, "orders-0", &v1alpha1.Partition{}, func(partition *v1alpha1.Partition) {
			partition.Annotations = map[string]string{v1alpha1.AnnotationAcceptDataLoss: "new-disk"}
		})
		expectLeader(0, 3)
	})

	It("has no managed fields after its first election, unless a user has applied it", func() {
		fields := func(g Gomega, name string) int {
			return len(get(g, f, name, &v1alpha1.Partition{}).ManagedFields)
		}
		f.renew(0, "a", 1, "disk", validThroughout)
		expectLeader(0, 1)
		Expect(fields(Default, "orders-0")).To(BeZero())
		f.serve("orders-0")
		change(f, "orders-0", &v1alpha1.Partition{}, func(partition *v1alpha1.Partition) {
			partition.Annotations = map[string]string{"some": "note"}
		})
		Expect(fields(Default, "orders-0")).To(BeZero())

		By("the managed fields of an applied Partition are kept")
		patch := client.RawPatch(types.ApplyPatchType, []byte(
			`{"apiVersion":"heartwood.dev/v1alpha1","kind":"Partition","metadata":{"name":"orders-0","labels":{"some":"label"}}}`,
		))
		applied := &v1alpha1.Partition{ObjectMeta: metav1.ObjectMeta{Name: "orders-0",
			Namespace: f.namespace}}
		Expect(api.Patch(context.Background(), applied, patch,
			client.FieldOwner("user"))).To(Succeed())
		f.renew(0, "b", 2, "disk", validThroughout)
		expectLeader(0, 2)
		Expect(fields(Default, "orders-0")).To(BeNumerically(">", 0))
	})

	It("ignores a Lease whose label names another cluster", func() {
		other := &coordinationv1.Lease{}
		other.Name = v1alpha1.BrokerLeaseName("main", 0)
		other.Labels = map[string]string{v1alpha1.LabelCluster: "another"}
		f.create(other)
		f.renew(1, "a", 1, "disk", validThroughout) // a broker without replicas of this partition
		Consistently(func(g Gomega) int32 {
			return get(g, f, "orders-0", &v1alpha1.Partition{}).Status.Leader
		}, "300ms").Should(Equal(int32(-1)))
		Expect(api.Delete(context.Background(), other, client.GracePeriodSeconds(0))).To(Succeed())
	})
})
