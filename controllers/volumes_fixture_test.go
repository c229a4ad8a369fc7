package controllers

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// The methods in this file play the parts of Kubernetes that run outside the API server: the
// controllers of StatefulSets and volumes, the garbage collector, the volume driver and the
// kubelet.

// class creates a StorageClass and returns its name.
func (f *fixture) class(name string, expands bool) string {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: f.namespace + "-" + name},
		Provisioner: "driver.example", AllowVolumeExpansion: &expands}
	Expect(api.Create(context.Background(), class)).To(Succeed())
	Cleanup(f.t, func() { Expect(api.Delete(context.Background(), class)).To(Succeed()) })
	return class.Name
}

// claim plays the StatefulSet controller, the provisioner and the binder. It creates a broker's
// bound claim from the StatefulSet's template.
func (f *fixture) claim(id int32) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	Eventually(func(g Gomega) {
		brokers := get(g, f, "main-broker", &appsv1.StatefulSet{})
		template := brokers.Spec.VolumeClaimTemplates[0]
		claim.Spec = *template.Spec.DeepCopy()
		claim.Labels = maps.Clone(template.Labels)
	}).Should(Succeed())
	claim.Name = v1alpha1.VolumeClaimName("main", id)
	f.create(claim)
	size := *claim.Spec.Resources.Requests.Storage() // read before the operator can change it
	f.putClaim(id, func(status *corev1.PersistentVolumeClaimStatus) {
		status.Phase = corev1.ClaimBound
		status.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	})
	return claim
}

// requested returns the size that a broker's claim requests.
func (f *fixture) requested(g Gomega, id int32) string {
	claim := get(g, f, v1alpha1.VolumeClaimName("main", id), &corev1.PersistentVolumeClaim{})
	return claim.Spec.Resources.Requests.Storage().String()
}

// expectRequested waits until the claims of the given brokers request a size.
func (f *fixture) expectRequested(size string, ids ...int32) {
	Eventually(func(g Gomega) {
		for _, id := range ids {
			g.Expect(f.requested(g, id)).To(Equal(size), "broker %d", id)
		}
	}).Should(Succeed())
}

// putClaim changes a claim's status, like the volume driver and the kubelet.
func (f *fixture) putClaim(id int32, how func(*corev1.PersistentVolumeClaimStatus)) {
	Eventually(func(g Gomega) {
		claim := get(g, f, v1alpha1.VolumeClaimName("main", id), &corev1.PersistentVolumeClaim{})
		how(&claim.Status)
		g.Expect(api.Status().Update(context.Background(), claim)).To(Succeed())
	}).Should(Succeed())
}

// grown plays a driver that grows volumes while pods run. It sets the capacity to the requested
// size.
func (f *fixture) grown(size string, ids ...int32) {
	for _, id := range ids {
		f.putClaim(id, func(status *corev1.PersistentVolumeClaimStatus) {
			status.Capacity[corev1.ResourceStorage] = resource.MustParse(size)
			status.Conditions = nil
		})
	}
}

// adopt plays the StatefulSet controller. It makes the StatefulSet the owner of its pods, and
// reports a revision of the template.
func (f *fixture) adopt(revision string) *appsv1.StatefulSet {
	brokers := get(Default, f, "main-broker", &appsv1.StatefulSet{})
	pods := &corev1.PodList{}
	Expect(api.List(context.Background(), pods, client.InNamespace(f.namespace))).To(Succeed())
	for _, pod := range pods.Items {
		Expect(metav1.GetControllerOf(&pod)).To(BeNil(), "%s has another owner", pod.Name)
		change(f, pod.Name, &pod, func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(brokers,
				appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		})
	}
	f.revision(revision)
	return brokers
}

// collect plays the garbage collector. It waits until a StatefulSet was deleted without its
// dependents, and then removes the StatefulSet from their owner references.
func (f *fixture) collect(before types.UID) {
	Eventually(func(g Gomega) {
		brokers := get(g, f, "main-broker", &appsv1.StatefulSet{})
		g.Expect(brokers.UID).To(Equal(before))
		g.Expect(brokers.DeletionTimestamp).NotTo(BeNil(), "was not deleted")
		g.Expect(brokers.Finalizers).To(Equal([]string{metav1.FinalizerOrphanDependents}))
	}).Should(Succeed())
	pods := &corev1.PodList{}
	Expect(api.List(context.Background(), pods, client.InNamespace(f.namespace))).To(Succeed())
	for _, pod := range pods.Items {
		change(f, pod.Name, &pod, func(pod *corev1.Pod) { pod.OwnerReferences = nil })
	}
	change(f, "main-broker", &appsv1.StatefulSet{}, func(brokers *appsv1.StatefulSet) {
		brokers.Finalizers = nil
	})
}

// expectReplaced waits for a StatefulSet with another UID, and returns it.
func (f *fixture) expectReplaced(before types.UID) *appsv1.StatefulSet {
	brokers := &appsv1.StatefulSet{}
	Eventually(func(g Gomega) {
		brokers = get(g, f, "main-broker", &appsv1.StatefulSet{})
		g.Expect(brokers.UID).NotTo(Equal(before))
	}).Should(Succeed())
	return brokers
}

// podUIDs returns the UIDs of all pods, sorted by name.
func (f *fixture) podUIDs() (uids []types.UID) {
	pods := &corev1.PodList{}
	Expect(api.List(context.Background(), pods, client.InNamespace(f.namespace))).To(Succeed())
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int {
		_, idA, _ := v1alpha1.ParseBrokerLeaseName(a.Name)
		_, idB, _ := v1alpha1.ParseBrokerLeaseName(b.Name)
		return int(idA - idB)
	})
	for _, pod := range pods.Items {
		uids = append(uids, pod.UID)
	}
	return uids
}

func (f *fixture) expectStorage(reason string, message ...string) {
	expectReason(f.clusterConditions(), v1alpha1.ConditionStorageResized, reason, message...)
}

// resize changes spec.storage.size.
func (f *fixture) resize(size string) {
	change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
		cluster.Spec.Storage.Size = resource.MustParse(size)
	})
}
