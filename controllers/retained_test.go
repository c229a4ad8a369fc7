package controllers

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// giveUp consents to the removal of a topic's retained records.
func (f *fixture) giveUp(topic, id string) {
	change(f, "main", &v1alpha1.LogCluster{}, func(c *v1alpha1.LogCluster) {
		c.Annotations = map[string]string{
			v1alpha1.AnnotationRemoveRetained: v1alpha1.GivenUp{Topic: topic, ID: id}.String()}
	})
}

// retainedOrders creates and deletes Topic orders. It returns the entry of the only partition.
func (f *fixture) retainedOrders() partitionset.Entry {
	f.cluster(3)
	f.register(3)
	topic := f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(2)) })
	f.serve("orders/0")
	Expect(api.Delete(context.Background(), topic)).To(Succeed())
	var entry partitionset.Entry
	Eventually(func(g Gomega) {
		entry = f.entry(g, "orders/0")
		g.Expect(entry.Assignment.Reclaim).To(Equal(partitionset.Retained))
		g.Expect(entry.State.Leader).To(Equal(int32(-1)))
	}).Should(Succeed())
	return entry
}

// reportRemoved plays a broker that has removed its records of orders/0.
func (f *fixture) reportRemoved(id string, broker int32) {
	Eventually(func(g Gomega) {
		object, set := f.setOf(g, parse("orders/0"))
		set.RemovedFrom(parse("orders/0"), id, broker)
		set.EncodeStatus(object)
		g.Expect(api.Status().Update(context.Background(), object)).To(Succeed())
	}).Should(Succeed())
}

var _ = Describe("Retained records", func() {
	It("are shown in the status with the command, and removed with consent", func(t *testing.T) {
		f := newFixture(t)
		entry := f.retainedOrders()
		id := entry.Assignment.Tag
		retained := func(g Gomega) v1alpha1.RetainedTopic {
			status := get(g, f, "main", &v1alpha1.LogCluster{}).Status
			g.Expect(status.RetainedTopics).To(HaveLen(1))
			g.Expect(status.RetainedPartitions).To(Equal(int32(1)))
			return status.RetainedTopics[0]
		}
		Eventually(func(g Gomega) {
			g.Expect(retained(g)).To(Equal(v1alpha1.RetainedTopic{Topic: "orders", ID: id, Partitions: 1,
				Command: "kubectl heartwood retained remove -n " + f.namespace +
					" --cluster main orders"}))
		}).Should(Succeed())

		f.giveUp("orders", id)
		f.expectEvent("main", corev1.EventTypeNormal, v1alpha1.EventRemovingRetained)
		waitsFor := func(ids ...int32) {
			slices.Sort(ids)
			Eventually(func(g Gomega) {
				g.Expect(retained(g).Removing).To(BeTrue())
				g.Expect(retained(g).WaitsFor).To(Equal(ids))
				g.Expect(retained(g).Command).To(BeEmpty())
				g.Expect(get(g, f, "main", &v1alpha1.LogCluster{}).GivenUp()).To(BeEmpty())
			}).Should(Succeed())
		}
		replicas := entry.Assignment.Replicas
		waitsFor(slices.Clone(replicas)...)

		t.Log("a new Topic of the name waits for the brokers, and starts without records")
		again := f.topic("orders", nil)
		f.reportRemoved(id, replicas[0])
		waitsFor(replicas[1])
		f.expectProblem("orders", v1alpha1.ReasonUnassigned, "are being removed")
		f.reportRemoved(id, replicas[1])
		f.serve("orders/0")
		fresh := f.entry(Default, "orders/0")
		Expect(fresh.State.LeaderEpoch).To(Equal(int32(1)))
		Expect(fresh.State.ReplicaIncarnations).NotTo(Equal(entry.State.ReplicaIncarnations))
		Expect(f.assignments(Default)).To(HaveLen(1))
		Expect(get(Default, f, "orders", again).UID).NotTo(BeEmpty())
		Eventually(func(g Gomega) {
			g.Expect(get(g, f, "main", &v1alpha1.LogCluster{}).Status.RetainedTopics).To(BeEmpty())
		}).Should(Succeed())
	})

	It("are kept if the Topic is created again before the consent", func(t *testing.T) {
		f := newFixture(t)
		entry := f.retainedOrders()
		f.topic("orders", nil)
		f.giveUp("orders", entry.Assignment.Tag)
		f.expectEvent("main", corev1.EventTypeWarning, v1alpha1.EventRetainedKept)
		f.serve("orders/0")
		Expect(f.state(Default, "orders/0").LeaderEpoch).To(
			BeNumerically(">", entry.State.LeaderEpoch))
		Expect(get(Default, f, "main", &v1alpha1.LogCluster{}).GivenUp()).To(BeEmpty())
	})
})
