package controllers

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// damageEvents returns the messages of the events about damage.
func (f *fixture) damageEvents(g Gomega) (notes []string) {
	events := &eventsv1.EventList{}
	g.Expect(api.List(context.Background(), events, client.InNamespace(f.namespace))).To(Succeed())
	for _, event := range events.Items {
		if event.Reason == v1alpha1.EventDamageFound || event.Reason == v1alpha1.EventDamageRepaired {
			notes = append(notes, event.Reason+" "+event.Note)
		}
	}
	return notes
}

var _ = Describe("The scrub of a broker", func() {
	It("is in the status, and each damaged file causes one event", func(t *testing.T) {
		f := newFixture(t)
		f.cluster(1)
		f.register(1)
		found := metav1.Unix(1_700_000_000, 0)
		scrub := v1alpha1.BrokerScrub{State: v1alpha1.ScrubStateRunning, Damaged: 1,
			Findings: []v1alpha1.ScrubFinding{{Partition: "orders-0", File: "orders-0/7.log",
				Position: 61, Problem: "checksum", FoundTime: found}}}
		reports := func(percent int32) {
			scrub.CheckedPercent = percent
			change(f, v1alpha1.BrokerLeaseName("main", 0), &coordinationv1.Lease{},
				func(lease *coordinationv1.Lease) {
					registered := v1alpha1.ReadRegistration(lease)
					registered.Scrub = scrub.Text()
					registered.Write(lease)
				})
			f.eventuallyRenewing(func(g Gomega) {
				brokers := get(g, f, "main", &v1alpha1.LogCluster{}).Status.Brokers
				g.Expect(brokers).NotTo(BeEmpty())
				g.Expect(brokers[0].Scrub).NotTo(BeNil())
				g.Expect(brokers[0].Scrub.CheckedPercent).To(Equal(percent))
				g.Expect(brokers[0].Scrub.Findings).To(HaveLen(len(scrub.Findings)))
			}, 0)
		}
		reports(10)
		reports(20) // the next report, and the next round, contain the same finding
		f.expectEvent("main", "Warning", v1alpha1.EventDamageFound)
		scrub.Damaged, scrub.Findings[0].RepairedTime = 0, &found
		reports(30)
		reports(40)
		f.expectEvent("main", "Normal", v1alpha1.EventDamageRepaired)
		notes := f.damageEvents(Default)
		Expect(notes).To(HaveLen(2))
		Expect(strings.Join(notes, "\n")).To(And(ContainSubstring("broker 0, partition orders-0, "+
			"file orders-0/7.log, position 61: checksum"), ContainSubstring("was repaired")))
	})
})
