package controllers

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

var _ = Describe("A deleted Partition", func() {
	It("is created again with its ISR and later leader epochs", func() {
		f := newFixture()
		f.cluster(3)
		f.topic("kept", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		expectReason(f.partitionConditions("kept-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonLeaderOffline)
		By("a leader removes a broker from the ISR just before")
		var before *v1alpha1.Partition
		Eventually(func(g Gomega) {
			before = get(g, f, "kept-0", &v1alpha1.Partition{})
			before.Status.LeaderEpoch, before.Status.Replicas = 7, before.Spec.Replicas
			before.Status.ISR = []v1alpha1.InSyncReplica{{Broker: 2, BrokerEpoch: 5,
				Directory: "disk"}}
			before.Status.Assignments = []v1alpha1.ReplicaAssignment{{Broker: 2, ID: "third"}}
			g.Expect(api.Status().Update(context.Background(), before)).To(Succeed())
		}).Should(Succeed())
		Expect(api.Delete(context.Background(), before)).To(Succeed())
		Eventually(func(g Gomega) {
			after := get(g, f, "kept-0", &v1alpha1.Partition{})
			g.Expect(after.UID).NotTo(Equal(before.UID))
			g.Expect(after.Status.LeaderEpoch).To(BeNumerically(">=", 7))
			g.Expect(after.Status.ISR).To(Equal(before.Status.ISR))
			g.Expect(after.Status.Assignments).To(Equal(before.Status.Assignments))
		}).Should(Succeed())
		By("a replica that is not in sync returns first")
		f.renew(0, "broker-0", 1, "disk 0", validThroughout)
		Consistently(func(g Gomega) {
			g.Expect(get(g, f, "kept-0",
				&v1alpha1.Partition{}).Status.Leader).To(Equal(placement.NoLeader))
		}, "1s").Should(Succeed())
		f.renew(2, "broker-2", 5, "disk", validThroughout)
		Eventually(func(g Gomega) {
			g.Expect(get(g, f, "kept-0", &v1alpha1.Partition{}).Status.Leader).To(Equal(int32(2)))
		}).Should(Succeed())
	})

	It("is created again on the brokers that have its records, not on the least loaded ones",
		func() {
			f := newFixture()
			f.cluster(3)
			f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 4 })
			Eventually(func(g Gomega) { g.Expect(f.partitions(g)).To(HaveLen(4)) }).Should(Succeed())
			before := f.partitions(Default)
			// if replicas were assigned by load, some would move after a few rounds
			for round := range 3 {
				for i := range before {
					if i != round {
						Expect(api.Delete(context.Background(), &before[i])).To(Succeed())
					}
				}
				Eventually(func(g Gomega) {
					after := f.partitions(g)
					g.Expect(after).To(HaveLen(4))
					for i := range after {
						g.Expect(after[i].Spec).To(Equal(before[i].Spec))
						g.Expect(after[i].UID != before[i].UID).To(Equal(i != round))
					}
				}).Should(Succeed())
				before = f.partitions(Default)
			}
		})

	It("is protected by a policy while its Topic exists", func() {
		f := newFixture()
		f.cluster(1)
		topic := f.topic("kept", nil)
		expectReason(f.partitionConditions("kept-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonLeaderOffline)
		policy := applyPolicy(f.namespace)
		partition := get(Default, f, "kept-0", &v1alpha1.Partition{})
		Eventually(func(g Gomega) { // the API server needs a moment to enforce a new policy
			err := api.Delete(context.Background(), partition, client.DryRunAll)
			g.Expect(apierrors.IsInvalid(err) || apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			g.Expect(err.Error()).To(ContainSubstring("delete Topic kept instead"))
		}).Should(Succeed())

		By("an annotation allows it")
		change(f, "kept-0", partition, func(partition *v1alpha1.Partition) {
			partition.Annotations = map[string]string{v1alpha1.AnnotationAllowDelete: "true"}
		})
		Expect(api.Delete(context.Background(), partition, client.DryRunAll)).To(Succeed())
		change(f, "kept-0", partition,
			func(partition *v1alpha1.Partition) { partition.Annotations = nil })
		Expect(api.Delete(context.Background(), partition, client.DryRunAll)).NotTo(Succeed())

		By("a retained Partition is not protected")
		Expect(api.Delete(context.Background(), topic)).To(Succeed())
		expectReason(f.partitionConditions("kept-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonRetained)
		Expect(api.Delete(context.Background(), partition)).To(Succeed())
		for _, object := range policy {
			Expect(api.Delete(context.Background(), object)).To(Succeed())
		}
	})
})

// applyPolicy creates the objects of config/admission. They apply to one namespace only, because
// other specs delete Partitions.
func applyPolicy(namespace string) (created []client.Object) {
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
		created = append(created, object)
	}
	return created
}
