package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// userID is the user and the group in the container image. In distroless images, the user nonroot
// has this id.
const userID = 65532

// stopSeconds is how long a broker's controlled shutdown may take before Kubernetes kills the
// broker. In this time, the broker transfers leadership (at most a third of the time), completes
// requests, and syncs and closes its logs. If the broker is killed, it loses no synced records. But
// its next start takes longer, and its replicas are not in sync until they have caught up.
const stopSeconds = 60

// rackKeyDefault is the default of spec.rackKey, as in the CRD. The constant is used for
// LogClusters to which no API server has added defaults.
const rackKeyDefault = "topology.kubernetes.io/zone"

// podTemplate renders a broker's pod. It satisfies the restricted profile of the Pod Security
// Standards.
func podTemplate(cluster *v1alpha1.LogCluster, settings Settings) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: Labels(cluster),
			Annotations: podAnnotations(cluster, settings)},
		Spec: corev1.PodSpec{
			ServiceAccountName:            BrokersName(cluster.Name),
			AutomountServiceAccountToken:  new(true),
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: new(int64(stopSeconds)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true),
				RunAsUser:    new(int64(userID)),
				RunAsGroup:   new(int64(userID)),
				FSGroup:      new(int64(userID)),
				// With the default policy, Kubernetes would change the owner of all files on the volume at
				// every start. For a large volume, this takes minutes.
				FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile: &corev1.SeccompProfile{
					Type: corev1.SeccompProfileTypeRuntimeDefault,
				},
			},
			TopologySpreadConstraints: spread(cluster),
			Containers:                []corev1.Container{container(cluster, settings)},
			Volumes:                   volumes(cluster),
		},
	}
	placePod(&template, cluster.Spec.Pod)
	return template
}

// spread returns constraints that spread brokers across racks and nodes as far as possible. They
// never prevent scheduling, unless zones is Required, because two brokers on one node are better
// than a pending pod.
func spread(cluster *v1alpha1.LogCluster) []corev1.TopologySpreadConstraint {
	rackKey := cluster.Spec.RackKey
	if rackKey == "" {
		rackKey = rackKeyDefault
	}
	var constraints []corev1.TopologySpreadConstraint
	for _, key := range []string{rackKey, corev1.LabelHostname} {
		constraints = append(constraints, corev1.TopologySpreadConstraint{
			MaxSkew:           1,
			TopologyKey:       key,
			WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: selector(cluster)},
		})
	}
	if cluster.Spec.RackSpread == v1alpha1.RackSpreadRequired {
		constraints[0].WhenUnsatisfiable = corev1.DoNotSchedule
	}
	if rackKey == corev1.LabelHostname {
		return constraints[:1] // the API server rejects two constraints with the same key
	}
	return constraints
}
