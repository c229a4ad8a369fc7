package controllers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("The volumes of a LogCluster", func() {
	var f *fixture
	// start creates a LogCluster of three brokers with claims and ready pods.
	start := func(class string, policy v1alpha1.ReclaimPolicy) *appsv1.StatefulSet {
		f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: v1alpha1.LogClusterSpec{Brokers: 3, Storage: v1alpha1.Storage{
				Size: resource.MustParse("10Gi"), ClassName: &class, ReclaimPolicy: policy}}})
		// The server plays a broker of an earlier version, which does not know the request and therefore
		// has no objection.
		server := httptest.NewServer(http.NotFoundHandler())
		f.t.Cleanup(server.Close)
		for id := range int32(3) {
			hosts.set(render.HTTPAddress("main", f.namespace, id), server.Listener.Addr().String())
			f.renew(id, "broker", 1, "disk", validThroughout)
			f.claim(id)
		}
		f.revision("first")
		for id := range int32(3) {
			f.brokerPod(id, "first")
		}
		brokers := f.adopt("first")
		f.expectStorage(v1alpha1.ReasonResized)
		f.expectRollout(v1alpha1.ReasonComplete)
		return brokers
	}
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	It("grow without a restart, and so do those of new brokers", func(t *testing.T) {
		before := start(f.class("grows", true), v1alpha1.ReclaimRetain)
		pods := f.podUIDs()
		f.resize("20Gi")
		f.expectRequested("20Gi", 0, 1, 2)
		f.expectStorage(v1alpha1.ReasonResizing, "data-main-broker-0", "from 10Gi to 20Gi")

		t.Log("replacing the StatefulSet, without its pods")
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplying)
		cluster := get(Default, f, "main", &v1alpha1.LogCluster{})
		Expect(cluster.Status.ObservedGeneration).To(BeNumerically("<", cluster.Generation))
		f.collect(before.UID)
		after := f.expectReplaced(before.UID)
		template := after.Spec.VolumeClaimTemplates[0].Spec
		Expect(template.Resources.Requests.Storage().String()).To(Equal("20Gi"))
		Expect(after.Spec.Template).To(Equal(before.Spec.Template))
		for _, condition := range []string{v1alpha1.ConditionScaled, v1alpha1.ConditionReady} {
			Expect(meta.IsStatusConditionTrue(f.clusterConditions()(Default), condition)).To(
				BeTrue(), condition)
		}
		f.adopt("first")
		f.expectRollout(v1alpha1.ReasonComplete)
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplied)
		Expect(f.podUIDs()).To(Equal(pods))

		f.grown("20Gi", 0, 1)
		f.expectStorage(v1alpha1.ReasonResizing, "data-main-broker-2")
		f.grown("20Gi", 2)
		f.expectStorage(v1alpha1.ReasonResized)
		f.expectEvent("main", "Normal", v1alpha1.ReasonResizing)
		f.expectEvent("main", "Normal", v1alpha1.ReasonResized)
		Expect(f.podUIDs()).To(Equal(pods))
	})

	It("restart the broker whose file system does not grow meanwhile, once", func(t *testing.T) {
		before := start(f.class("offline", true), v1alpha1.ReclaimRetain)
		f.resize("20Gi")
		f.expectRequested("20Gi", 0, 1, 2)
		f.collect(before.UID)
		f.expectReplaced(before.UID)
		f.adopt("first")
		f.grown("20Gi", 0, 2)
		f.putClaim(1, func(status *corev1.PersistentVolumeClaimStatus) {
			status.Conditions = []corev1.PersistentVolumeClaimCondition{{Status: corev1.ConditionTrue,
				Type: corev1.PersistentVolumeClaimFileSystemResizePending}}
		})
		f.expectPods(0, 2)
		f.expectEvent("main", "Normal", v1alpha1.EventRestarting)
		f.expectStorage(v1alpha1.ReasonResizing, "data-main-broker-1")

		t.Log("not restarting the next pod, although the driver does not report the file system")
		f.brokerPod(1, "first")
		pods := f.podUIDs()
		f.expectRollout(v1alpha1.ReasonComplete)
		Consistently(func(g Gomega) { g.Expect(f.podUIDs()).To(Equal(pods)) },
			several(rolloutInterval)).Should(Succeed())
		f.grown("20Gi", 1)
		f.expectStorage(v1alpha1.ReasonResized)
	})

	It("are kept if their class forbids growth, until it allows it", func(t *testing.T) {
		class := f.class("fixed", false)
		before := start(class, v1alpha1.ReclaimRetain)
		f.resize("20Gi")
		f.expectStorage(v1alpha1.ReasonClassCannotExpand, "data-main-broker-0", class,
			"allowVolumeExpansion", "also brokers 1, 2")
		f.expectEvent("main", "Warning", v1alpha1.ReasonClassCannotExpand)
		Expect(f.requested(Default, 0)).To(Equal("10Gi"))
		f.collect(before.UID)
		f.expectReplaced(before.UID)

		stored := &storagev1.StorageClass{}
		Expect(api.Get(context.Background(), client.ObjectKey{Name: class}, stored)).To(Succeed())
		stored.AllowVolumeExpansion = new(true)
		Expect(api.Update(context.Background(), stored)).To(Succeed())
		f.expectRequested("20Gi", 0, 1, 2)
	})

	// template returns the requested volume size of new brokers.
	template := func(g Gomega) string {
		claims := get(g, f, "main-broker", &appsv1.StatefulSet{}).Spec.VolumeClaimTemplates
		return claims[0].Spec.Resources.Requests.Storage().String()
	}

	It("do not follow a mistaken size that is taken back", func(t *testing.T) {
		before := start(f.class("refuses", true), v1alpha1.ReclaimRetain)
		f.resize("40Gi")
		f.expectRequested("40Gi", 0, 1, 2)
		f.collect(before.UID)
		before = f.expectReplaced(before.UID)
		Expect(template(Default)).To(Equal("40Gi"))
		for id := range int32(3) { // the driver fails to resize
			f.putClaim(id, func(status *corev1.PersistentVolumeClaimStatus) {
				status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
					corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
			})
		}
		f.expectStorage(v1alpha1.ReasonResizeFailed, "the driver has given up",
			"not below 10Gi")
		f.adopt("first")
		f.resize("10Gi")
		f.expectRequested("10241Mi", 0, 1, 2) // the smallest request that Kubernetes accepts
		f.expectStorage(v1alpha1.ReasonResized)
		f.collect(before.UID)
		f.expectReplaced(before.UID)
		Expect(template(Default)).To(Equal("10Gi"))
	})

	It("are not grown again after somebody has lowered their requests", func(t *testing.T) {
		start(f.class("lowered", true), v1alpha1.ReclaimRetain)
		f.resize("40Gi")
		f.expectRequested("40Gi", 0, 1, 2)
		change(f, v1alpha1.VolumeClaimName("main", 1), &corev1.PersistentVolumeClaim{},
			func(claim *corev1.PersistentVolumeClaim) {
				claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("12Gi")
			})
		f.expectStorage(v1alpha1.ReasonGrowthWithdrawn, "data-main-broker-1", "from 40Gi to 12Gi",
			v1alpha1.AnnotationRequestedSize)
		f.expectEvent("main", "Warning", v1alpha1.ReasonGrowthWithdrawn)
		Expect(f.requested(Default, 1)).To(Equal("12Gi"))
		f.resize("12Gi")
		f.expectRequested("12Gi", 0, 1, 2)
		f.grown("12Gi", 0, 1, 2)
		f.expectStorage(v1alpha1.ReasonResized)
	})

	It("of a class that forbids growth have a way back", func(t *testing.T) {
		before := start(f.class("rigid", false), v1alpha1.ReclaimRetain)
		f.resize("40Gi")
		f.expectStorage(v1alpha1.ReasonClassCannotExpand, "set spec.storage.size to 10Gi")
		f.collect(before.UID)
		before = f.expectReplaced(before.UID)
		f.adopt("first")
		f.resize("5Gi")
		f.expectStorage(v1alpha1.ReasonShrinkRefused, "has a volume of 10Gi",
			"Set spec.storage.size to 10Gi")
		f.collect(before.UID)
		before = f.expectReplaced(before.UID)
		Expect(template(Default)).To(Equal("5Gi"))
		f.adopt("first")
		f.resize("10Gi")
		f.expectStorage(v1alpha1.ReasonResized)
		f.collect(before.UID)
		f.expectReplaced(before.UID)
		Expect(template(Default)).To(Equal("10Gi"))
	})

	It("are never shrunk, and one that others have grown holds up nothing", func(t *testing.T) {
		before := start(f.class("larger", true), v1alpha1.ReclaimRetain)
		change(f, v1alpha1.VolumeClaimName("main", 1), &corev1.PersistentVolumeClaim{},
			func(claim *corev1.PersistentVolumeClaim) {
				claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("50Gi")
			})
		f.grown("50Gi", 1)
		f.expectStorage(v1alpha1.ReasonShrinkRefused, "data-main-broker-1", "50Gi",
			"Set spec.storage.size to 50Gi")
		f.expectEvent("main", "Warning", v1alpha1.ReasonShrinkRefused)
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Storage.Size = resource.MustParse("20Gi")
			cluster.Spec.Image = "registry.example/heartwood:next"
		})
		f.expectRequested("20Gi", 0, 2)
		f.collect(before.UID)
		Expect(f.expectReplaced(before.UID).Spec.Template.Spec.Containers[0].Image).To(
			HaveSuffix(":next"))
		Expect(f.requested(Default, 1)).To(Equal("50Gi"))
	})

	It("grow although the spec cannot be applied, and the StatefulSet remains", func(t *testing.T) {
		before := start(f.class("guarded", true), v1alpha1.ReclaimRetain)
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Storage.Size = resource.MustParse("20Gi")
			cluster.Spec.Resources = &v1alpha1.Resources{
				Requests: map[string]resource.Quantity{"no resource": resource.MustParse("1")}}
		})
		f.expectRequested("20Gi", 0, 1, 2)
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed,
			"StatefulSet main-broker", "no resource")
		brokers := get(Default, f, "main-broker", &appsv1.StatefulSet{})
		Expect(brokers.UID).To(Equal(before.UID))
		Expect(brokers.DeletionTimestamp).To(BeNil())
	})

	It("stay as they are while the LogCluster is paused", func(t *testing.T) {
		start(f.class("paused", true), v1alpha1.ReclaimRetain)
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
			cluster.Spec.Storage.Size = resource.MustParse("20Gi")
		})
		f.expectStorage(v1alpha1.ReasonPaused, "Remove the annotation")
		Expect(f.requested(Default, 0)).To(Equal("10Gi"))
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = nil
		})
		f.expectRequested("20Gi", 0, 1, 2)
	})

	It("belong to no StatefulSet while it is being replaced", func(t *testing.T) {
		before := start(f.class("owned", true), v1alpha1.ReclaimDelete)
		owner := *metav1.NewControllerRef(before, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
		change(f, v1alpha1.VolumeClaimName("main", 2), &corev1.PersistentVolumeClaim{},
			func(claim *corev1.PersistentVolumeClaim) {
				claim.OwnerReferences = []metav1.OwnerReference{owner}
			})
		f.resize("20Gi")
		policy := func(g Gomega) appsv1.PersistentVolumeClaimRetentionPolicyType {
			return get(g, f, "main-broker",
				&appsv1.StatefulSet{}).Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted
		}
		Eventually(policy).Should(
			Equal(appsv1.RetainPersistentVolumeClaimRetentionPolicyType))
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplying,
			"data-main-broker-2")
		Consistently(func(g Gomega) {
			g.Expect(get(g, f, "main-broker",
				&appsv1.StatefulSet{}).DeletionTimestamp).To(BeNil())
		}, "3s").Should(Succeed())

		change(f, v1alpha1.VolumeClaimName("main", 2), &corev1.PersistentVolumeClaim{},
			func(claim *corev1.PersistentVolumeClaim) { claim.OwnerReferences = nil })
		f.collect(before.UID)
		f.expectReplaced(before.UID)
		Expect(policy(Default)).To(Equal(appsv1.DeletePersistentVolumeClaimRetentionPolicyType))
	})

	It("outlive a deletion of the LogCluster in the middle, and its pods do not", func(t *testing.T) {
		before := start(f.class("gone", true), v1alpha1.ReclaimRetain)
		f.resize("20Gi")
		Eventually(func(g Gomega) {
			g.Expect(get(g, f, "main-broker",
				&appsv1.StatefulSet{}).DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
		Expect(api.Delete(context.Background(),
			get(Default, f, "main", &v1alpha1.LogCluster{}))).To(Succeed())
		f.collect(before.UID)
		f.expectPods()
		Expect(f.requested(Default, 0)).To(Equal("20Gi"))
	})
})

var _ = Describe("A StatefulSet that is missing", func() {
	It("is created again with the restart request of its template", func(t *testing.T) {
		f := newFixture(t)
		f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main",
			Annotations: map[string]string{v1alpha1.AnnotationRestart: "7"}},
			Spec: v1alpha1.LogClusterSpec{Brokers: 1}})
		f.revision("first")
		pod := f.brokerPod(0, "first")
		change(f, pod.Name, pod, func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{v1alpha1.AnnotationRestartedFor: "7"}
		})
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = nil
		})
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplied)

		t.Log("losing it, as if the operator had stopped between deletion and creation")
		before := get(Default, f, "main-broker", &appsv1.StatefulSet{})
		err := api.Delete(context.Background(), before.DeepCopy(),
			client.PropagationPolicy(metav1.DeletePropagationOrphan))
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		f.collect(before.UID)
		after := f.expectReplaced(before.UID)
		Expect(after.Spec.Template).To(Equal(before.Spec.Template))
		Expect(after.Spec.Template.Annotations).To(
			HaveKeyWithValue(v1alpha1.AnnotationRestartedFor, "7"))
		Consistently(func(g Gomega) {
			pod := &corev1.Pod{}
			err := api.Get(context.Background(),
				client.ObjectKey{Namespace: f.namespace, Name: "main-broker-0"}, pod)
			g.Expect(apierrors.IsNotFound(err)).To(BeFalse())
			g.Expect(pod.DeletionTimestamp).To(BeNil())
		}, "1s").Should(Succeed())
	})
})
