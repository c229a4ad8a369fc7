package controllers

import (
	"context"
	"os"
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

// TestAForgottenEpochIsOutgrown: a Partition made again begins at epoch 0, and the leader finds epoch 7 on its disk.
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
	h.elect(placement.Standing{}, 1)
	h.elect(living(2, "disk"), 1)
	h.expect(t, 0, 21, 2)
}

var _ = Describe("a Partition that somebody deletes", func() {
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
		expectReason(w.partitionConditions("kept-0"), v1alpha1.ConditionReady, v1alpha1.ReasonLeaderOffline)
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
		change(w, "kept-0", partition, func(partition *v1alpha1.Partition) { partition.Annotations = nil })
		Expect(api.Delete(context.Background(), partition, client.DryRunAll)).NotTo(Succeed())

		By("one that outlived its Topic is nobody's")
		Expect(api.Delete(context.Background(), topic)).To(Succeed())
		expectReason(w.partitionConditions("kept-0"), v1alpha1.ConditionReady, v1alpha1.ReasonRetained)
		Expect(api.Delete(context.Background(), partition)).To(Succeed())
		for _, object := range policy {
			Expect(api.Delete(context.Background(), object)).To(Succeed())
		}
	})
})

// applyPolicy makes what config/admission holds, for one namespace: the other specs delete as they like.
func applyPolicy(namespace string) (made []client.Object) {
	GinkgoHelper()
	content, err := os.ReadFile("../config/admission/partitions.yaml")
	Expect(err).NotTo(HaveOccurred())
	for _, document := range strings.Split(string(content), "\n---\n") {
		object := &unstructured.Unstructured{}
		Expect(yaml.UnmarshalStrict([]byte(document), object)).To(Succeed())
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			only := map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": namespace}}
			Expect(unstructured.SetNestedMap(object.Object, only, "spec", "matchResources", "namespaceSelector")).To(Succeed())
		}
		Expect(api.Create(context.Background(), object)).To(Succeed())
		made = append(made, object)
	}
	return made
}
