package controllers

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// TestAForgottenEpochIsOutgrown: a Partition made again begins at epoch 0, and the leader finds
// epoch 7 on its disk.
func TestAForgottenEpochIsOutgrown(t *testing.T) {
	h := newHistory()
	h.elect(living(1, "disk"), 1)
	h.partition.Status.FoundEpoch = new(int32(7))
	reason(t, h.elect(living(1, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 8, 1)
	if h.partition.Status.FoundEpoch != nil {
		t.Error("what was found stays though it counts no more")
	}
	h.serve()
	reason(t, h.elect(living(1, "disk"), 1), v1alpha1.ReasonReady)
	h.expect(t, 0, 8, 1)

	// It was found, and the broker went before the operator looked.
	h.partition.Status.FoundEpoch = new(int32(20))
	h.elect(placement.BrokerState{}, 1)
	h.elect(living(2, "disk"), 1)
	h.expect(t, 0, 21, 2)
}

// TestAPartitionThatIsMadeAgainIsLedByOneInSync, under a later epoch, though others live that have
// a log of it.
func TestAPartitionThatIsMadeAgainIsLedByOneInSync(t *testing.T) {
	last := v1alpha1.PartitionStatus{
		Leader: 2, LeaderEpoch: 7, UnprovenEpoch: 3, LeaderDirectory: "disk 2",
		Replicas: []int32{0, 1, 2}, ServingEpoch: new(int32(7)), InSync: "1,2",
		ISR: []v1alpha1.InSyncReplica{{Broker: 1, BrokerEpoch: 4, Directory: "disk 1"},
			{Broker: 2, BrokerEpoch: 5, Directory: "disk 2"}},
		Assignments: []v1alpha1.ReplicaAssignment{{Broker: 0, ID: "a"}, {Broker: 1, ID: "b"},
			{Broker: 2, ID: "c"}},
	}
	for name, test := range map[string]struct {
		brokers map[int32]placement.BrokerState
		leader  int32
		isr     int
	}{
		"all live": {map[int32]placement.BrokerState{0: living(9, "disk 0"),
			1: living(4, "disk 1"), 2: living(5, "disk 2")}, 1, 2},
		"only who was behind": {map[int32]placement.BrokerState{0: living(9, "disk 0")},
			placement.NoLeader, 2},
		"one in sync": {map[int32]placement.BrokerState{0: living(9, "disk 0"),
			2: living(5, "disk 2")}, 2, 1},
		"one with another disk": {map[int32]placement.BrokerState{0: living(9, "disk 0"),
			2: living(6, "disk 3")}, placement.NoLeader, 2},
		"one that stopped uncleanly": {map[int32]placement.BrokerState{2: living(6, "disk 2")},
			placement.NoLeader, 2},
	} {
		h := newHistory()
		h.partition.Spec.Replicas = []int32{0, 1, 2}
		if err := remember(&h.partition, last); err != nil {
			t.Fatal(err)
		}
		for range 2 { // what was elected is not undone by what is remembered
			e := electorate{partition: recalled(&h.partition), brokers: test.brokers,
				topicPartitions: 1, assignment: "new"}
			h.partition.Status = e.elect().status
		}
		status := h.partition.Status
		if status.Leader != test.leader || status.LeaderEpoch < 8 || len(status.ISR) != test.isr ||
			status.UnprovenEpoch != 3 {
			t.Errorf(
				"%s: leader %d in epoch %d (unproven %d), in sync %+v; want leader %d, %d in sync",
				name,
				status.Leader,
				status.LeaderEpoch,
				status.UnprovenEpoch,
				status.ISR,
				test.leader,
				test.isr,
			)
		}
		if !slices.Equal(status.Assignments, last.Assignments) {
			t.Errorf("%s: assignments %+v", name, status.Assignments)
		}
	}
}

// TestWhatIsRememberedCountsForANewPartitionAlone, and makes sense.
func TestWhatIsRememberedCountsForANewPartitionAlone(t *testing.T) {
	h := newHistory()
	if err := remember(&h.partition, v1alpha1.PartitionStatus{Leader: -1}); err != nil ||
		h.partition.Annotations != nil {
		t.Errorf("of a partition that nobody led %v is remembered, %v", h.partition.Annotations,
			err)
	}
	for _, text := range []string{"", "{", "{}",
		`{"leader":0,"leaderEpoch":-1,"isr":[{"broker":0}]}`, `{"leader":0,"leaderEpoch":3}`} {
		h.partition.Annotations = map[string]string{v1alpha1.AnnotationRemembered: text}
		if got := recalled(&h.partition); got != &h.partition {
			t.Errorf("%q: %+v", text, got.Status)
		}
	}
	h.partition.Annotations[v1alpha1.AnnotationRemembered] = `{"leader":0,"leaderEpoch":3,"isr":[{"broker":0,"brokerEpoch":1}]}`
	if got := recalled(&h.partition).Status; got.Leader != placement.NoLeader ||
		got.LeaderEpoch != 4 || len(got.ISR) != 1 {
		t.Errorf("%+v", got)
	}
	h.partition.Status.LeaderEpoch = 1
	if got := recalled(&h.partition); got != &h.partition {
		t.Errorf("behind an election: %+v", got.Status)
	}
}

var _ = Describe("a Partition that somebody deletes", func() {
	It("is made again with who is in sync, and under later epochs", func() {
		w := newWorld()
		w.cluster(3)
		w.topic("kept", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		expectReason(w.partitionConditions("kept-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonLeaderOffline)
		By("a leader takes a broker out of sync, in the moment before")
		var before *v1alpha1.Partition
		Eventually(func(g Gomega) {
			before = get(g, w, "kept-0", &v1alpha1.Partition{})
			before.Status.LeaderEpoch, before.Status.Replicas = 7, before.Spec.Replicas
			before.Status.ISR = []v1alpha1.InSyncReplica{{Broker: 2, BrokerEpoch: 5,
				Directory: "disk"}}
			before.Status.Assignments = []v1alpha1.ReplicaAssignment{{Broker: 2, ID: "third"}}
			g.Expect(api.Status().Update(context.Background(), before)).To(Succeed())
		}).Should(Succeed())
		Expect(api.Delete(context.Background(), before)).To(Succeed())
		Eventually(func(g Gomega) {
			after := get(g, w, "kept-0", &v1alpha1.Partition{})
			g.Expect(after.UID).NotTo(Equal(before.UID))
			g.Expect(after.Status.LeaderEpoch).To(BeNumerically(">=", 7))
			g.Expect(after.Status.ISR).To(Equal(before.Status.ISR))
			g.Expect(after.Status.Assignments).To(Equal(before.Status.Assignments))
		}).Should(Succeed())
		By("one that is behind comes first")
		w.renew(0, "broker-0", 1, "disk 0", aliveForLong)
		Consistently(func(g Gomega) {
			g.Expect(get(g, w, "kept-0",
				&v1alpha1.Partition{}).Status.Leader).To(Equal(placement.NoLeader))
		}, "1s").Should(Succeed())
		w.renew(2, "broker-2", 5, "disk", aliveForLong)
		Eventually(func(g Gomega) {
			g.Expect(get(g, w, "kept-0", &v1alpha1.Partition{}).Status.Leader).To(Equal(int32(2)))
		}).Should(Succeed())
	})

	It("is made again where its records are, not where there is most room", func() {
		w := newWorld()
		w.cluster(3)
		w.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 4 })
		Eventually(func(g Gomega) { g.Expect(w.partitions(g)).To(HaveLen(4)) }).Should(Succeed())
		before := w.partitions(Default)
		for round := range 3 { // placed by load it would move sooner or later
			for i := range before {
				if i != round {
					Expect(api.Delete(context.Background(), &before[i])).To(Succeed())
				}
			}
			Eventually(func(g Gomega) {
				after := w.partitions(g)
				g.Expect(after).To(HaveLen(4))
				for i := range after {
					g.Expect(after[i].Spec).To(Equal(before[i].Spec))
					g.Expect(after[i].UID != before[i].UID).To(Equal(i != round))
				}
			}).Should(Succeed())
			before = w.partitions(Default)
		}
	})

	It("is protected by a policy while its Topic lives", func() {
		w := newWorld()
		w.cluster(1)
		topic := w.topic("kept", nil)
		expectReason(w.partitionConditions("kept-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonLeaderOffline)
		policy := applyPolicy(w.namespace)
		partition := get(Default, w, "kept-0", &v1alpha1.Partition{})
		Eventually(func(g Gomega) { // it takes a moment until the API server goes by a new policy
			err := api.Delete(context.Background(), partition, client.DryRunAll)
			g.Expect(apierrors.IsInvalid(err) || apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			g.Expect(err.Error()).To(ContainSubstring("delete Topic kept instead"))
		}).Should(Succeed())

		By("an annotation allows it")
		change(w, "kept-0", partition, func(partition *v1alpha1.Partition) {
			partition.Annotations = map[string]string{v1alpha1.AnnotationAllowDelete: "true"}
		})
		Expect(api.Delete(context.Background(), partition, client.DryRunAll)).To(Succeed())
		change(w, "kept-0", partition,
			func(partition *v1alpha1.Partition) { partition.Annotations = nil })
		Expect(api.Delete(context.Background(), partition, client.DryRunAll)).NotTo(Succeed())

		By("one that outlived its Topic is nobody's")
		Expect(api.Delete(context.Background(), topic)).To(Succeed())
		expectReason(w.partitionConditions("kept-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonRetained)
		Expect(api.Delete(context.Background(), partition)).To(Succeed())
		for _, object := range policy {
			Expect(api.Delete(context.Background(), object)).To(Succeed())
		}
	})
})

// applyPolicy makes what config/admission holds, for one namespace: the other specs delete as they
// like.
func applyPolicy(namespace string) (made []client.Object) {
	GinkgoHelper()
	content, err := os.ReadFile("../config/admission/partitions.yaml")
	Expect(err).NotTo(HaveOccurred())
	for _, document := range strings.Split(string(content), "\n---\n") {
		object := &unstructured.Unstructured{}
		Expect(yaml.UnmarshalStrict([]byte(document), object)).To(Succeed())
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			only := map[string]any{
				"matchLabels": map[string]any{"kubernetes.io/metadata.name": namespace},
			}
			Expect(unstructured.SetNestedMap(object.Object, only, "spec", "matchResources",
				"namespaceSelector")).To(Succeed())
		}
		Expect(api.Create(context.Background(), object)).To(Succeed())
		made = append(made, object)
	}
	return made
}
