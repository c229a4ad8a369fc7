package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// userID is the user of the image: nonroot in distroless images.
const userID = 65532

// stopSeconds is the time that a broker has for its controlled shutdown before it is killed: to
// transfer leadership (a third of it at most), to complete requests, and to sync and close its
// logs. A killed broker loses nothing that was synced. Its next start takes longer, and its
// replicas are not in sync until they have caught up.
const stopSeconds = 60

// rackKeyDefault is the default of the CRD, for a LogCluster without API server defaulting.
const rackKeyDefault = "topology.kubernetes.io/zone"

// podTemplate renders a broker's pod. It satisfies the restricted profile of the Pod Security
// Standards.
func podTemplate(cluster *v1alpha1.LogCluster, settings Settings) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: Labels(cluster)},
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
				// Otherwise changing the owner of a large volume would take minutes at every start.
				FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile: &corev1.SeccompProfile{
					Type: corev1.SeccompProfileTypeRuntimeDefault,
				},
			},
			TopologySpreadConstraints: spread(cluster),
			Containers:                []corev1.Container{container(cluster, settings)},
		},
	}
}

// spread spreads brokers across racks first and nodes second, as far as possible. It never prevents
// scheduling: a broker on a shared node serves, a pending one does not.
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
	if rackKey == corev1.LabelHostname {
		return constraints[:1] // the API server rejects a key that is named twice
	}
	return constraints
}
