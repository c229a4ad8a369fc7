package render

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// storageSizeDefault is the default size of a volume. The CRD specifies the same default.
const storageSizeDefault = "10Gi"

// statefulSet renders the brokers' StatefulSet, with one pod and one volume per broker id. Pods
// start in parallel, because a broker can start without other brokers. The operator decides when a
// pod gets the latest template (see package rollout), and then deletes the pod. When the cluster is
// scaled down, volumes are always kept (WhenScaled), because they may contain the only copy of some
// records.
func statefulSet(cluster *v1alpha1.LogCluster, settings Settings) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metadata(cluster, BrokersName(cluster.Name)),
		Spec: appsv1.StatefulSetSpec{
			Replicas:            new(settings.running(cluster)),
			ServiceName:         HeadlessName(cluster.Name),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.OnDeleteStatefulSetStrategyType,
			},
			Selector:             &metav1.LabelSelector{MatchLabels: selector(cluster)},
			Template:             podTemplate(cluster, settings),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{volumeClaim(cluster)},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: retention(cluster.Spec.Storage.ReclaimPolicy),
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
		},
	}
}

// SameClaims reports whether the claim templates of two StatefulSets request the same volumes. A
// StatefulSet's claim templates are immutable.
func SameClaims(a, b *appsv1.StatefulSet) bool {
	return slices.EqualFunc(a.Spec.VolumeClaimTemplates, b.Spec.VolumeClaimTemplates,
		func(a, b corev1.PersistentVolumeClaim) bool {
			return a.Spec.Resources.Requests.Storage().Cmp(
				*b.Spec.Resources.Requests.Storage()) == 0 &&
				equality.Semantic.DeepEqual(a.Spec.StorageClassName, b.Spec.StorageClassName)
		})
}

// volumeClaim renders the claim of a broker's volume. Without a class name, Kubernetes uses its
// default StorageClass.
func volumeClaim(cluster *v1alpha1.LogCluster) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		// Volume claim templates are immutable, so these labels must never change.
		ObjectMeta: metav1.ObjectMeta{Name: volumeData, Labels: selector(cluster)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: cluster.Spec.Storage.ClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: VolumeSize(cluster)},
			},
		},
	}
}

// VolumeSize returns the size of each broker's volume.
func VolumeSize(cluster *v1alpha1.LogCluster) resource.Quantity {
	if size := cluster.Spec.Storage.Size; !size.IsZero() {
		return size
	}
	return resource.MustParse(storageSizeDefault)
}

// retention returns Retain unless the LogCluster explicitly specifies Delete.
func retention(policy v1alpha1.ReclaimPolicy) appsv1.PersistentVolumeClaimRetentionPolicyType {
	if policy == v1alpha1.ReclaimDelete {
		return appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
}
