package controllers

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// expired is the duration of a Lease that expires at once.
const expired = time.Second

// foundVolume plays a broker that does not run because it has found a volume that is not its own.
func (f *fixture) foundVolume(id int32, directory string) {
	f.renew(id, "", 1, diskOf(id), expired)
	f.announce(id, func(r *v1alpha1.Registration) { r.FoundDirectory = directory })
}

func diskOf(id int32) string { return fmt.Sprint("disk", id) }

// consentIn returns the consent in a broker's Lease.
func (f *fixture) consentIn(g Gomega, id int32) v1alpha1.VolumeConsent {
	return v1alpha1.ParseVolumeConsent(
		f.lease(g, id).Annotations[v1alpha1.AnnotationVolumeConsent])
}

// consent plays a user who consents to the replacement of a claim's volume.
func (f *fixture) consent(uid types.UID) {
	change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
		cluster.Annotations = map[string]string{
			v1alpha1.AnnotationReplaceVolume: string(uid)}
	})
}

// expectConsentRemoved waits until the operator has removed all consents of the LogCluster.
func (f *fixture) expectConsentRemoved() {
	Eventually(func(g Gomega) {
		g.Expect(get(g, f, "main", &v1alpha1.LogCluster{}).Annotations).NotTo(
			HaveKey(v1alpha1.AnnotationReplaceVolume))
	}).Should(Succeed())
}

// expectUnpermitted checks that no consent appears in a broker's Lease and that the claim is kept.
func (f *fixture) expectUnpermitted(id int32) {
	Consistently(func(g Gomega) {
		g.Expect(f.consentIn(g, id)).To(BeZero())
		g.Expect(f.claimOf(g, id).DeletionTimestamp).To(BeNil())
	}, "1500ms").Should(Succeed())
}

func (f *fixture) expectLost(reason string, message ...string) {
	expectReason(f.clusterConditions(), v1alpha1.ConditionVolumeLost, reason, message...)
}

var _ = Describe("The volume of a broker", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		class := f.class("local", false)
		f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: v1alpha1.LogClusterSpec{Brokers: 2, Storage: v1alpha1.Storage{
				Size: resource.MustParse("10Gi"), ClassName: &class}}})
		for id := range int32(2) {
			f.renew(id, "broker", 1, diskOf(id), validThroughout)
			f.claim(id)
		}
		f.revision("first")
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions = 1
			spec.Replicas, spec.MinInSyncReplicas = new(int32(2)), new(int32(1))
		})
		f.isr("orders/0", 0, 1)
		f.expectLost(v1alpha1.ReasonVolumesPresent)
	})

	It("that was deleted with its claim is replaced after consent only", func(t *testing.T) {
		f.foundVolume(1, "new")
		uid := f.claimOf(Default, 1).UID
		command := "kubectl annotate logclusters.heartwood.dev main -n " + f.namespace +
			" --overwrite heartwood.dev/replace-volume=" + string(uid)
		f.expectLost(v1alpha1.ReasonWaitingForConsent, "Broker 1 ", "data-main-broker-1", command)
		f.expectEvent("main", "Warning", v1alpha1.ConditionVolumeLost)
		f.expectUnpermitted(1)

		t.Log("refusing the consent for another claim, and for an earlier one")
		f.consent(f.claimOf(Default, 0).UID + ",earlier") // Broker 0 has its volume.
		f.expectConsentRemoved()
		f.expectEvent("main", "Warning", v1alpha1.EventConsentUnused)
		f.expectUnpermitted(1)

		t.Log("permitting this volume, once")
		f.consent(uid)
		f.expectConsentRemoved()
		Eventually(func(g Gomega) {
			g.Expect(f.consentIn(g, 1)).To(Equal(
				v1alpha1.VolumeConsent{Claim: string(uid), Directory: "new"}))
		}).Should(Succeed())
		f.expectLost(v1alpha1.ReasonReplacingVolume)
		f.expectEvent("main", "Normal", v1alpha1.EventReplacingVolume)

		t.Log("reporting no loss after the broker has registered with it")
		f.renew(1, "broker", 2, "new", validThroughout)
		f.expectLost(v1alpha1.ReasonVolumesPresent)
		Expect(get(Default, f, "main", &v1alpha1.LogCluster{}).Status.LostVolumes).To(BeEmpty())
	})

	It("whose PersistentVolume is gone is replaced with its claim and pod", func(t *testing.T) {
		f.brokerPod(1, "first")
		f.renew(1, "", 1, diskOf(1), expired)
		f.putClaim(1, func(status *corev1.PersistentVolumeClaimStatus) {
			status.Phase = corev1.ClaimLost
		})
		f.expectLost(v1alpha1.ReasonWaitingForConsent, "does not exist any more")
		f.expectUnpermitted(1)
		f.expectReplaced1()
	})

	It("on a node that was deleted is replaced with its claim and pod", func(t *testing.T) {
		f.brokerPod(1, "first")
		f.volumeOn(1, "no-such-node")
		f.expectUnpermitted(1) // Broker 1 is up.
		f.renew(1, "", 1, diskOf(1), expired)
		f.expectLost(v1alpha1.ReasonWaitingForConsent, "on a node that does not exist any more")
		f.expectUnpermitted(1)
		f.expectReplaced1()
	})

	It("on a node that exists is not lost", func(t *testing.T) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.namespace,
			Labels: map[string]string{corev1.LabelHostname: f.namespace}}}
		Expect(api.Create(context.Background(), node)).To(Succeed())
		Cleanup(f.t, func() { Expect(api.Delete(context.Background(), node)).To(Succeed()) })
		f.volumeOn(1, node.Name)
		f.renew(1, "", 1, diskOf(1), expired)
		Consistently(func(g Gomega) {
			g.Expect(get(g, f, "main", &v1alpha1.LogCluster{}).Status.LostVolumes).To(BeEmpty())
		}, "4s").Should(Succeed())
	})

	It("is not replaced while it has the only in-sync replica of a partition", func(t *testing.T) {
		f.isr("orders/0", 1)
		f.renew(0, "", 1, diskOf(0), expired)
		f.foundVolume(1, "new")
		uid := f.claimOf(Default, 1).UID
		f.consent(uid)
		f.expectLost(v1alpha1.ReasonLastInSyncReplica, "partitions orders/0",
			"kubectl heartwood accept-loss -n "+f.namespace+" orders/0")
		f.expectUnpermitted(1)
		f.expectProblem("orders", v1alpha1.ReasonReplicaLost, "Broker 1 has lost its volume",
			"0="+string(uid))
		loss := get(Default, f, "orders", &v1alpha1.Topic{}).Status.Problems[0].Consent
		Expect(loss).To(Equal(placement.DataLossConsent(string(uid),
			f.state(Default, "orders/0").LeaderEpoch)))

		t.Log("replacing it after the loss was accepted, with the consent that was given before")
		change(f, "orders", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
			topic.Annotations = map[string]string{
				v1alpha1.AnnotationAcceptDataLoss: "0=" + loss}
		})
		permitted := v1alpha1.VolumeConsent{Claim: string(uid), Directory: "new"}
		Eventually(func(g Gomega) {
			g.Expect(f.consentIn(g, 1)).To(Equal(permitted))
		}).Should(Succeed())

		t.Log("electing the broker with its new volume, without asking again")
		f.renew(1, "broker", 2, "new", validThroughout)
		f.annotate(1, map[string]string{v1alpha1.AnnotationVolumeConsent: permitted.String()})
		Eventually(func(g Gomega) {
			g.Expect(f.state(g, "orders/0").Leader).To(Equal(int32(1)))
		}).Should(Succeed())
		Expect(f.state(Default, "orders/0").ISR[0].Directory).To(Equal("new"))

		t.Log("asking again when the next volume of the same claim is lost")
		f.renew(1, "", 2, "new", expired)
		f.annotate(1, map[string]string{v1alpha1.AnnotationVolumeConsent: permitted.String()})
		f.announce(1, func(r *v1alpha1.Registration) { r.FoundDirectory = "newer" })
		f.consent(uid)
		f.expectLost(v1alpha1.ReasonLastInSyncReplica, "partitions orders/0")
		Consistently(func(g Gomega) {
			g.Expect(f.consentIn(g, 1)).To(Equal(permitted))
		}, "1500ms").Should(Succeed())
	})

	It("has a label while its broker is removed", func(t *testing.T) {
		scale := func(brokers int32) {
			change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
				cluster.Spec.Brokers = brokers
			})
		}
		scale(3)
		f.renew(2, "broker", 1, diskOf(2), validThroughout)
		f.claim(2)
		brokers := func(g Gomega) int32 {
			return *get(g, f, "main-broker", &appsv1.StatefulSet{}).Spec.Replicas
		}
		Eventually(brokers).Should(Equal(int32(3)))
		scale(2)
		labels := func(id int32) func(Gomega) map[string]string {
			return func(g Gomega) map[string]string { return f.claimOf(g, id).Labels }
		}
		Eventually(labels(2)).Should(HaveKeyWithValue(v1alpha1.LabelRemovedBroker, "2"))
		Eventually(brokers).Should(Equal(int32(2)))
		scale(3)
		Eventually(labels(2)).ShouldNot(HaveKey(v1alpha1.LabelRemovedBroker))
		for id := range int32(2) {
			Expect(labels(id)(Default)).NotTo(HaveKey(v1alpha1.LabelRemovedBroker))
		}
	})

	It("that was deleted on purpose while the broker had no replicas needs no consent",
		func(t *testing.T) {
			f.topic("single", func(spec *v1alpha1.TopicSpec) {
				spec.Partitions, spec.Replicas = 1, new(int32(1))
				spec.InitialReplicas = []v1alpha1.InitialReplicas{{Replicas: []int32{0}}}
			})
			change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
				cluster.Spec.Brokers = 3
			})
			f.renew(2, "", 1, diskOf(2), expired)
			f.claim(2)
			f.foundVolume(2, "new")
			Eventually(func(g Gomega) {
				g.Expect(f.consentIn(g, 2)).To(Equal(v1alpha1.VolumeConsent{
					Claim: string(f.claimOf(g, 2).UID), Directory: "new"}))
			}).Should(Succeed())
		})
})

// isr plays a partition's leader that sets the ISR.
func (f *fixture) isr(name string, ids ...int32) {
	f.putState(name, func(g Gomega, state *partitionset.State) {
		g.Expect(state.Leader).NotTo(Equal(placement.NoLeader))
		state.ISR = nil
		for _, id := range ids {
			state.ISR = append(state.ISR,
				placement.InSyncReplica{Broker: id, Epoch: 1, Directory: diskOf(id)})
		}
	})
}

// volumeOn creates a PersistentVolume that only one node can mount, and binds a broker's claim to
// it.
func (f *fixture) volumeOn(id int32, node string) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	volume.Spec.Capacity = corev1.ResourceList{
		corev1.ResourceStorage: resource.MustParse("10Gi")}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/volume"}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname,
				Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
	Expect(api.Create(context.Background(), volume)).To(Succeed())
	Cleanup(f.t, func() { Expect(api.Delete(context.Background(), volume)).To(Succeed()) })
	change(f, v1alpha1.VolumeClaimName("main", id), &corev1.PersistentVolumeClaim{},
		func(claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeName = volume.Name })
}

// expectReplaced1 consents to the replacement of broker 1's volume, and checks that the operator
// deletes the broker's claim and pod, and then permits the volume that the broker finds.
func (f *fixture) expectReplaced1() {
	before := f.claimOf(Default, 1)
	f.consent(before.UID)
	f.expectPods()
	Eventually(func(g Gomega) {
		g.Expect(f.claimOf(g, 1).DeletionTimestamp).NotTo(BeNil())
	}).Should(Succeed())
	Expect(f.consentIn(Default, 1)).To(Equal(v1alpha1.VolumeConsent{Claim: string(before.UID)}))
	f.expectConsentRemoved()

	f.t.Log("acting as the controllers of Kubernetes, which create the next claim")
	change(f, before.Name, before, func(claim *corev1.PersistentVolumeClaim) {
		claim.Finalizers = nil
	})
	Eventually(func() error {
		return client.IgnoreNotFound(api.Get(context.Background(), client.ObjectKeyFromObject(before),
			&corev1.PersistentVolumeClaim{}))
	}).Should(Succeed())
	Expect(get(Default, f, "main-broker", &appsv1.StatefulSet{}).DeletionTimestamp).To(BeNil())
	f.claim(1)
	f.announce(1, func(r *v1alpha1.Registration) { r.FoundDirectory = "new" })
	Eventually(func(g Gomega) {
		g.Expect(f.consentIn(g, 1)).To(Equal(
			v1alpha1.VolumeConsent{Claim: string(before.UID), Directory: "new"}))
	}).Should(Succeed())
}
