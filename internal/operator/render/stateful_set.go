package render

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// storageSizeDefault is a volume's size when the LogCluster names none; the CRD has the same
// default.
const storageSizeDefault = "10Gi"

// statefulSet runs the brokers: one pod and one volume for each node id. Pods start together, as a
// broker needs no other to start; they are replaced one by one, when the operator says so. Volumes
// outlive a smaller number of brokers in any case (WhenScaled): the records on them may have no
// other copy.
func statefulSet(cluster *v1alpha1.LogCluster, settings Settings) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metadata(cluster, BrokersName(cluster.Name)),
		Spec: appsv1.StatefulSetSpec{
			Replicas:            new(settings.running(cluster)),
			ServiceName:         headlessName(cluster.Name),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{
					Partition: new(settings.Held),
				},
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

// volumeClaim is each broker's volume; without a class it gets the Kubernetes cluster's default
// one.
func volumeClaim(cluster *v1alpha1.LogCluster) corev1.PersistentVolumeClaim {
	size := cluster.Spec.Storage.Size
	if size.IsZero() {
		size = resource.MustParse(storageSizeDefault)
	}
	return corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		// No label that may ever change: the template is immutable.
		ObjectMeta: metav1.ObjectMeta{Name: volumeData, Labels: selector(cluster)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: cluster.Spec.Storage.ClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}
}

// retention keeps volumes unless the user asks for the contrary in so many words.
func retention(policy v1alpha1.ReclaimPolicy) appsv1.PersistentVolumeClaimRetentionPolicyType {
	if policy == v1alpha1.ReclaimDelete {
		return appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
}
