package controllers

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("A deleted PartitionSet", func() {
	It("is created again with its ISRs and later leader epochs", func(t *testing.T) {
		f := newFixture(t)
		f.cluster(3)
		f.topic("kept", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		f.expectProblem("kept", v1alpha1.ReasonLeaderOffline)
		t.Log("a leader removes a broker from the ISR just before")
		f.putState("kept/0", func(_ Gomega, state *partitionset.State) {
			state.LeaderEpoch, state.Leader, state.Serving = 7, placement.NoLeader, false
			state.ISR = []placement.InSyncReplica{{Broker: 2, Epoch: 5, Directory: "disk"}}
			state.ReplicaIncarnations = map[int32]string{0: "first", 1: "second", 2: "third"}
		})
		deleted, _ := f.setOf(Default, parse("kept/0"))
		before := f.entry(Default, "kept/0")
		Expect(api.Delete(context.Background(), deleted)).To(Succeed())
		t.Log("a replica that is not in sync returns first")
		f.renew(0, "broker-0", 1, "disk 0", validThroughout)
		Eventually(func(g Gomega) {
			set, _ := f.setOf(g, parse("kept/0"))
			g.Expect(set.UID).NotTo(Equal(deleted.UID))
		}).Should(Succeed())
		f.expectProblem("kept", v1alpha1.ReasonLeaderOffline, "waits for brokers [2]")
		Consistently(func(g Gomega) {
			if state := f.entry(g, "kept/0").State; state != nil {
				g.Expect(state.Leader).To(Equal(placement.NoLeader))
			}
		}, "1s").Should(Succeed())
		f.renew(2, "broker-2", 5, "disk", validThroughout)
		Eventually(func(g Gomega) {
			after := f.state(g, "kept/0")
			g.Expect(after.Leader).To(Equal(int32(2)))
			g.Expect(after.LeaderEpoch).To(BeNumerically(">", 7))
			g.Expect(after.ISR).To(Equal(before.State.ISR))
			g.Expect(after.ReplicaIncarnations).To(Equal(before.State.ReplicaIncarnations))
			g.Expect(after.Changes).To(BeNumerically(">", before.State.Changes))
			set, _ := f.setOf(g, parse("kept/0"))
			g.Expect(set.Annotations).NotTo(HaveKey(v1alpha1.AnnotationRemembered))
		}).Should(Succeed())
		Expect(f.replicas(Default, "kept/0")).To(Equal(before.Assignment.Replicas))
	})

	It("is created again with the same assignments", func(t *testing.T) {
		f := newFixture(t)
		f.cluster(3)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 4 })
		Eventually(func(g Gomega) { g.Expect(f.assignments(g)).To(HaveLen(4)) }).Should(Succeed())
		before := f.assignments(Default)
		// If replicas were assigned by load, some replicas would move after a few rounds.
		for round := range int32(3) {
			deleted := map[string]types.UID{}
			for i := range int32(4) {
				set, _ := f.setOf(Default, partitionset.Key{Topic: "orders", Index: i})
				if i != round {
					Expect(api.Delete(context.Background(), set)).To(Succeed())
					deleted[set.Name] = set.UID
				}
			}
			Eventually(func(g Gomega) {
				g.Expect(f.assignments(g)).To(Equal(before))
				for name, uid := range deleted {
					g.Expect(get(g, f, name, &v1alpha1.PartitionSet{}).UID).NotTo(Equal(uid))
				}
			}).Should(Succeed())
		}
		Expect(moved.get(f.namespace)).To(BeZero())
	})

	It("is created again with its ISRs however often and quickly it is deleted", func(t *testing.T) {
		f := newFixture(t)
		f.cluster(3)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		f.expectProblem("orders", v1alpha1.ReasonLeaderOffline)
		isr := []placement.InSyncReplica{{Broker: 2, Epoch: 5, Directory: "disk"}}
		f.putState("orders/0", func(_ Gomega, state *partitionset.State) {
			state.LeaderEpoch, state.Leader, state.Serving = 7, placement.NoLeader, false
			state.ISR = isr
		})
		f.renew(0, "broker-0", 1, "disk 0", validThroughout) // this broker would lead a new partition
		before := f.assignments(Default)
		set, _ := f.setOf(Default, partitionset.Key{Topic: "orders"})
		last := types.UID("")
		for range 30 {
			Eventually(func(g Gomega) { // no pause: the watch may be slow
				set := get(g, f, set.Name, &v1alpha1.PartitionSet{})
				g.Expect(set.UID).NotTo(Equal(last))
				g.Expect(api.Delete(context.Background(), set)).To(Succeed())
				last = set.UID
			}).WithPolling(time.Millisecond).Should(Succeed())
		}
		Eventually(func(g Gomega) {
			g.Expect(f.assignments(g)).To(Equal(before))
			state := f.state(g, "orders/0")
			g.Expect(state.ISR).To(Equal(isr))
			g.Expect(state.Leader).To(Equal(placement.NoLeader))
			set, _ := f.setOf(g, parse("orders/0"))
			g.Expect(set.Annotations).NotTo(HaveKey(v1alpha1.AnnotationRemembered))
		}).Should(Succeed())
	})

	It("is protected by a policy while Topics have partitions in it", func(t *testing.T) {
		f := newFixture(t)
		f.cluster(1)
		topic := f.topic("kept", nil)
		f.expectProblem("kept", v1alpha1.ReasonLeaderOffline)
		policy := applyPolicy(f.namespace)
		set, _ := f.setOf(Default, parse("kept/0"))
		Eventually(func(g Gomega) { // a new policy takes effect in the API server only after a moment
			err := api.Delete(context.Background(), set, client.DryRunAll)
			g.Expect(apierrors.IsInvalid(err) || apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			g.Expect(err.Error()).To(ContainSubstring("delete the Topics of LogCluster main instead"))
		}).Should(Succeed())
		empty, _ := f.setOf(Default, parse("kept/1"))
		Expect(api.Delete(context.Background(), empty, client.DryRunAll)).To(Succeed())

		t.Log("an annotation allows it")
		change(f, set.Name, set, func(set *v1alpha1.PartitionSet) {
			set.Annotations = map[string]string{v1alpha1.AnnotationAllowDelete: "true"}
		})
		Expect(api.Delete(context.Background(), set, client.DryRunAll)).To(Succeed())
		change(f, set.Name, set, func(set *v1alpha1.PartitionSet) { set.Annotations = nil })
		Expect(api.Delete(context.Background(), set, client.DryRunAll)).NotTo(Succeed())

		t.Log("a set with retained partitions only is not protected")
		Expect(api.Delete(context.Background(), topic)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(f.entry(g, "kept/0").Assignment.Reclaim).To(Equal(partitionset.Retained))
		}).Should(Succeed())
		Expect(api.Delete(context.Background(), set, client.DryRunAll)).To(Succeed())
		for _, object := range policy {
			Expect(api.Delete(context.Background(), object)).To(Succeed())
		}
	})

	It("keeps retained partitions until a person removes their entries", func(t *testing.T) {
		f := newFixture(t)
		f.cluster(1)
		f.renew(0, "a", 1, "disk", validThroughout)
		topic := f.topic("kept", nil)
		f.serve("kept/0")
		Expect(api.Delete(context.Background(), topic)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(f.entry(g, "kept/0").Assignment.Reclaim).To(Equal(partitionset.Retained))
		}).Should(Succeed())
		set, _ := f.setOf(Default, parse("kept/0"))
		Expect(api.Delete(context.Background(), set)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(f.entry(g, "kept/0").Assignment).NotTo(BeNil())
			g.Expect(f.state(g, "kept/0").LeaderEpoch).To(BeNumerically(">", 1))
		}).Should(Succeed())
		change(f, set.Name, set,
			func(set *v1alpha1.PartitionSet) { delete(set.Spec.Assignments, "kept/0") })
		Eventually(func(g Gomega) {
			g.Expect(f.entry(g, "kept/0")).To(Equal(partitionset.Entry{}))
		}).Should(Succeed())
	})
})

// applyPolicy creates the objects of config/admission. The policy applies to one namespace only,
// because other specs delete PartitionSets.
func applyPolicy(namespace string) (created []client.Object) {
	content, err := os.ReadFile("../config/admission/partitionsets.yaml")
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
		created = append(created, object)
	}
	return created
}
