package controllers

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("A partition", func() {
	var f *fixture
	expectLeader := func(leader, epoch int32) {
		Eventually(func(g Gomega) {
			state := f.state(g, "orders/0")
			g.Expect([]int32{state.Leader, state.LeaderEpoch}).To(Equal([]int32{leader, epoch}))
		}).Should(Succeed())
	}
	expectLeaderless := func(partitions float64) {
		Eventually(func(g Gomega) {
			g.Expect(series(g, "heartwood_logcluster_leaderless_partitions", "namespace",
				f.namespace)).To(Equal([]float64{partitions}))
		}).Should(Succeed())
	}
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		f.cluster(1)
		f.topic("orders", nil)
		f.expectProblem("orders", v1alpha1.ReasonLeaderOffline, "[0]")
	})

	ItAlone(
		"has a leader as soon as its broker is up, is Ready when the leader serves, and goes offline when the Lease expires",
		func(t *testing.T) {
			expectLeaderless(1)
			f.renew(0, "a", 1, "disk", validThroughout)
			expectLeader(0, 1)
			expectLeaderless(0)
			f.expectProblem("orders", v1alpha1.ReasonLeaderStarting, "leader epoch 1")
			f.serve("orders/0")
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)

			f.renew(0, "a", 1, "disk", time.Second) // no renewal follows, so the Lease expires
			expectLeader(-1, 2)
			expectLeaderless(1)
			f.expectProblem("orders", v1alpha1.ReasonLeaderOffline, "serves again when")
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReady,
				v1alpha1.ReasonPartitionsNotReady)

			f.renew(0, "b", 2, "disk", validThroughout)
			expectLeader(0, 3)
			Expect(f.state(Default, "orders/0").ISR).To(Equal([]placement.InSyncReplica{
				{Broker: 0, Epoch: 2, Directory: "disk"}}))

			t.Log("the outage is measured")
			before := measuredOutages(Default)
			f.serve("orders/0")
			Eventually(measuredOutages).Should(BeNumerically(">", before))
		},
	)

	It("loses its leader at once when the broker stops gracefully", func(t *testing.T) {
		f.renew(0, "a", 1, "disk", validThroughout)
		expectLeader(0, 1)
		f.renew(0, "", 1, "disk", validThroughout)
		expectLeader(-1, 2)
	})

	It("loses its leader when the Lease is deleted", func(t *testing.T) {
		f.renew(0, "a", 1, "disk", validThroughout)
		expectLeader(0, 1)
		lease := get(Default, f, v1alpha1.BrokerLeaseName("main", 0), &coordinationv1.Lease{})
		Expect(api.Delete(context.Background(), lease)).To(Succeed())
		expectLeader(-1, 2)
	})

	It("gets a new leader epoch with each broker epoch, even if the broker was never observed as down",
		func(t *testing.T) {
			f.renew(0, "a", 1, "disk", validThroughout)
			expectLeader(0, 1)
			f.serve("orders/0")
			f.renew(0, "b", 2, "disk", validThroughout)
			expectLeader(0, 2)
			f.expectProblem("orders", v1alpha1.ReasonLeaderStarting)
		})

	It("is not led by a broker with a replaced disk until a user accepts the data loss",
		func(t *testing.T) {
			f.renew(0, "a", 1, "old-disk", validThroughout)
			expectLeader(0, 1)
			f.renew(0, "b", 2, "new-disk", validThroughout)
			expectLeader(-1, 2)
			f.expectProblem("orders", v1alpha1.ReasonReplicaLost,
				"kubectl annotate topics.heartwood.dev orders -n "+f.namespace+" "+
					v1alpha1.AnnotationAcceptDataLoss+"=0=new-disk --overwrite")
			f.expectEvent("orders", "Warning", v1alpha1.ReasonReplicaLost)
			lost := get(Default, f, "orders", &v1alpha1.Topic{}).Status.Problems[0]
			Expect(lost.Consent).To(Equal("new-disk"))
			f.acceptLoss("orders", "new-disk")
			expectLeader(0, 3)
		})

	It("ignores a Lease whose label names another cluster", func(t *testing.T) {
		other := &coordinationv1.Lease{}
		other.Name = v1alpha1.BrokerLeaseName("main", 0)
		other.Labels = map[string]string{v1alpha1.LabelCluster: "another"}
		f.create(other)
		f.renew(1, "a", 1, "disk", validThroughout) // a broker without replicas of this partition
		Consistently(func(g Gomega) int32 {
			if state := f.entry(g, "orders/0").State; state != nil {
				return state.Leader
			}
			return placement.NoLeader
		}, "300ms").Should(Equal(placement.NoLeader))
		Expect(api.Delete(context.Background(), other, client.GracePeriodSeconds(0))).To(Succeed())
	})
})

var _ = Describe("A partition without a leader", func() {
	It("gets one when the defaults of its LogCluster allow the loss of records", func(t *testing.T) {
		f := newFixture(t)
		f.cluster(3)
		f.renew(1, "a", 1, "disk1", validThroughout)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		expectLeader := func(leader int32) {
			Eventually(func(g Gomega) {
				g.Expect(f.state(g, "orders/0").Leader).To(Equal(leader))
			}).Should(Succeed())
		}
		expectLeader(1)
		// No broker's state has changed, so there is no timer that repeats the election.
		f.putState("orders/0", func(_ Gomega, state *partitionset.State) {
			state.LeaderEpoch, state.Leader, state.Serving = 7, placement.NoLeader, false
			state.ISR = []placement.InSyncReplica{{Broker: 2, Epoch: 5, Directory: "disk2"}}
		})
		f.expectProblem("orders", v1alpha1.ReasonLeaderOffline, "waits for brokers [2]")
		Expect(f.state(Default, "orders/0").Leader).To(Equal(placement.NoLeader))
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.TopicDefaults = &v1alpha1.TopicDefaults{
				TopicSettings: v1alpha1.TopicSettings{UncleanLeaderElection: new(true)}}
		})
		expectLeader(1)
		f.expectEvent("orders", "Warning", v1alpha1.EventUncleanElection)
	})
})

// acceptLoss acts as a user who accepts the loss of the records of a Topic's partition 0.
func (f *fixture) acceptLoss(topic, consent string) {
	change(f, topic, &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
		topic.Annotations = map[string]string{v1alpha1.AnnotationAcceptDataLoss: "0=" + consent}
	})
}

var _ = Describe("A replica that has lost its log", func() {
	var f *fixture
	loseLog := func(id int32) {
		f.putState("orders/0", func(_ Gomega, state *partitionset.State) {
			state.Partition = placement.LoseLog(state.Partition, id, state.ReplicaIncarnations[id],
				"another")
		})
	}
	expectLeader := func(leader int32) {
		Eventually(func(g Gomega) {
			g.Expect(f.state(g, "orders/0").Leader).To(Equal(leader))
		}).Should(Succeed())
	}
	expectRefused := func(consent string) {
		f.acceptLoss("orders", consent)
		Consistently(func(g Gomega) {
			g.Expect(f.state(g, "orders/0").Leader).To(Equal(placement.NoLeader))
		}, "1s").Should(Succeed())
	}
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		f.cluster(2)
		for id := range int32(2) {
			f.renew(id, "a", 1, diskOf(id), validThroughout)
		}
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Replicas, spec.MinInSyncReplicas = new(int32(2)), new(int32(1))
		})
		f.isr("orders/0", 0, 1)
		f.serve("orders/0")
	})

	It("is not elected while another replica is in sync, and copies the log as another one",
		func(t *testing.T) {
			lost := f.state(Default, "orders/0").Leader
			loseLog(lost)
			expectLeader(1 - lost)
			state := f.state(Default, "orders/0")
			Expect(state.ISR).To(Equal([]placement.InSyncReplica{
				{Broker: 1 - lost, Epoch: 1, Directory: diskOf(1 - lost)}}))
			Expect(state.ReplicaIncarnations).To(HaveKeyWithValue(lost, "another"))
			Expect(state.UnprovenEpoch).To(BeZero())
			f.serve("orders/0")
			f.expectProblem("orders", v1alpha1.ReasonUnderReplicated, fmt.Sprintf("[%d]", lost))
		})

	It("and was the last one in sync is elected after a consent in this leader epoch only",
		func(t *testing.T) {
			f.isr("orders/0", f.state(Default, "orders/0").Leader)
			lost := f.state(Default, "orders/0").Leader
			f.renew(1-lost, "", 1, diskOf(1-lost), expired)
			loseLog(lost)
			epoch := f.state(Default, "orders/0").LeaderEpoch
			consent := placement.DataLossConsent(diskOf(lost), epoch)
			f.expectProblem("orders", v1alpha1.ReasonReplicaLost,
				fmt.Sprintf("The log on broker %d, which was the last in-sync replica, has lost records",
					lost), fmt.Sprintf("with the records of broker %d, run: kubectl annotate", lost),
				"=0="+consent)
			f.expectEvent("orders", "Warning", v1alpha1.ReasonReplicaLost)
			expectRefused(diskOf(lost))
			expectRefused(placement.DataLossConsent(diskOf(lost), epoch-1))

			t.Log("recommending the records of another replica when it is up")
			f.renew(1-lost, "a", 2, diskOf(1-lost), validThroughout)
			older := placement.DataLossConsent(diskOf(1-lost), epoch)
			f.expectProblem("orders", v1alpha1.ReasonReplicaLost,
				fmt.Sprintf("with the records of broker %d, run: kubectl annotate", 1-lost), "=0="+older)
			Expect(get(Default, f, "orders", &v1alpha1.Topic{}).Status.Problems[0].Consent).To(
				Equal(older))
			f.acceptLoss("orders", consent)
			expectLeader(lost)
			state := f.state(Default, "orders/0")
			Expect(state.ISR).To(Equal([]placement.InSyncReplica{
				{Broker: lost, Epoch: 1, Directory: diskOf(lost)}}))
			Expect(state.UnprovenEpoch).To(Equal(state.LeaderEpoch))
			f.expectEvent("orders", "Warning", v1alpha1.EventUncleanElection)
		})

	It("and was the last one in sync is named when no broker is up that could lead",
		func(t *testing.T) {
			lost := f.state(Default, "orders/0").Leader
			f.isr("orders/0", lost)
			loseLog(lost)
			for id := range int32(2) {
				f.renew(id, "", 1, diskOf(id), expired)
			}
			f.expectProblem("orders", v1alpha1.ReasonReplicaLost,
				fmt.Sprintf("The log on broker %d, ", lost),
				"No replica is up that could continue without these records.")
			Expect(get(Default, f, "orders", &v1alpha1.Topic{}).Status.Problems[0].Consent).To(BeEmpty())
		})
})
