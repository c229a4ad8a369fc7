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

var _ = Describe("a Partition", func() {
	var w *world
	expectLeader := func(leader, epoch int32) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			status := get(g, w, "orders-0", &v1alpha1.Partition{}).Status
			g.Expect([]int32{status.Leader, status.LeaderEpoch}).To(Equal([]int32{leader, epoch}))
		}).Should(Succeed())
	}
	BeforeEach(func() {
		w = newWorld()
		w.cluster(1)
		w.topic("orders", nil)
		expectReason(w.partitionConditions("orders-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonLeaderOffline, "[0]")
	})

	It(
		"has a leader as soon as its broker is up, is Ready when that serves, and loses it when the Lease runs out",
		func() {
			w.renew(0, "a", 1, "disk", aliveForLong)
			expectLeader(0, 1)
			expectReason(w.partitionConditions("orders-0"), v1alpha1.ConditionReady,
				v1alpha1.ReasonLeaderStarting, "leader epoch 1")
			w.serve("orders-0")
			expectReason(w.partitionConditions("orders-0"), v1alpha1.ConditionReady,
				v1alpha1.ReasonReady)

			w.renew(0, "a", 1, "disk", time.Second) // the last one
			expectLeader(-1, 2)
			expectReason(w.partitionConditions("orders-0"), v1alpha1.ConditionReady,
				v1alpha1.ReasonLeaderOffline, "serves again when")
			expectReason(w.topicConditions("orders"), v1alpha1.ConditionReady,
				v1alpha1.ReasonPartitionsNotReady)

			w.renew(0, "b", 2, "disk", aliveForLong)
			expectLeader(0, 3)
			isr := get(Default, w, "orders-0", &v1alpha1.Partition{}).Status.ISR
			Expect(isr).To(Equal([]v1alpha1.InSyncReplica{{Broker: 0, BrokerEpoch: 2,
				Directory: "disk"}}))

			By("the time without a leader is measured")
			w.serve("orders-0")
			Eventually(outagesSeen).Should(BeNumerically(">", 0))
		},
	)

	It("loses its leader at once when that stops in order", func() {
		w.renew(0, "a", 1, "disk", aliveForLong)
		expectLeader(0, 1)
		w.renew(0, "", 1, "disk", aliveForLong)
		expectLeader(-1, 2)
	})

	It("loses its leader when the Lease is deleted", func() {
		w.renew(0, "a", 1, "disk", aliveForLong)
		expectLeader(0, 1)
		lease := get(Default, w, v1alpha1.BrokerLeaseName("main", 0), &coordinationv1.Lease{})
		Expect(api.Delete(context.Background(), lease)).To(Succeed())
		expectLeader(-1, 2)
	})

	It("gets a new leader epoch with each incarnation, also when nobody saw the broker down",
		func() {
			w.renew(0, "a", 1, "disk", aliveForLong)
			expectLeader(0, 1)
			w.serve("orders-0")
			w.renew(0, "b", 2, "disk", aliveForLong)
			expectLeader(0, 2)
			expectReason(w.partitionConditions("orders-0"), v1alpha1.ConditionReady,
				v1alpha1.ReasonLeaderStarting)
		})

	It("is not led by a broker whose disk is new, until somebody accepts the loss", func() {
		w.renew(0, "a", 1, "old-disk", aliveForLong)
		expectLeader(0, 1)
		w.renew(0, "b", 2, "new-disk", aliveForLong)
		expectLeader(-1, 2)
		expectReason(w.partitionConditions("orders-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonReplicaLost,
			"kubectl annotate partition orders-0 -n "+w.namespace+" "+
				v1alpha1.AnnotationAcceptDataLoss+"=new-disk")
		w.expectEvent("orders-0", "Warning", v1alpha1.ReasonReplicaLost)
		change(w, "orders-0", &v1alpha1.Partition{}, func(partition *v1alpha1.Partition) {
			partition.Annotations = map[string]string{v1alpha1.AnnotationAcceptDataLoss: "new-disk"}
		})
		expectLeader(0, 3)
	})

	It("has no managed fields from its first election on, unless somebody has applied it", func() {
		fields := func(g Gomega, name string) int {
			return len(get(g, w, name, &v1alpha1.Partition{}).ManagedFields)
		}
		w.renew(0, "a", 1, "disk", aliveForLong)
		expectLeader(0, 1)
		Expect(fields(Default, "orders-0")).To(BeZero())
		w.serve("orders-0")
		change(w, "orders-0", &v1alpha1.Partition{}, func(partition *v1alpha1.Partition) {
			partition.Annotations = map[string]string{"some": "note"}
		})
		Expect(fields(Default, "orders-0")).To(BeZero())

		By("those of one that somebody applies are kept")
		theirs := client.RawPatch(types.ApplyPatchType, []byte(
			`{"apiVersion":"heartwood.dev/v1alpha1","kind":"Partition","metadata":{"name":"orders-0","labels":{"some":"label"}}}`,
		))
		applied := &v1alpha1.Partition{ObjectMeta: metav1.ObjectMeta{Name: "orders-0",
			Namespace: w.namespace}}
		Expect(api.Patch(context.Background(), applied, theirs,
			client.FieldOwner("somebody"))).To(Succeed())
		w.renew(0, "b", 2, "disk", aliveForLong)
		expectLeader(0, 2)
		Expect(fields(Default, "orders-0")).To(BeNumerically(">", 0))
	})

	It("is no matter of a Lease that only looks like its broker's", func() {
		other := &coordinationv1.Lease{}
		other.Name = v1alpha1.BrokerLeaseName("main", 0)
		other.Labels = map[string]string{v1alpha1.LabelCluster: "another"}
		w.make(other)
		w.renew(1, "a", 1, "disk", aliveForLong) // a broker that holds nothing
		Consistently(func(g Gomega) int32 {
			return get(g, w, "orders-0", &v1alpha1.Partition{}).Status.Leader
		}, "300ms").Should(Equal(int32(-1)))
		Expect(api.Delete(context.Background(), other, client.GracePeriodSeconds(0))).To(Succeed())
	})
})
