package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// userID is the image's user, the one that distroless images call nonroot.
const userID = 65532

// stopSeconds is what a broker has to stop in order before it is killed: to hand leadership over (a
// third of it at most), to end requests, to sync and close its logs. Killed, it loses nothing that
// was synced, its next start takes longer, and its replicas are out of sync until they have caught
// up.
const stopSeconds = 60

// rackKeyDefault is the CRD's default, for a LogCluster that did not pass the API server.
const rackKeyDefault = "topology.kubernetes.io/zone"

// podTemplate is a broker's pod, under the restricted profile of the Pod Security Standards.
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
				// A large volume would take minutes to change the owner of at every start.
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

// spread puts brokers on racks first and on nodes second, as far as there are any. It never holds a
// broker back: one on a crowded node serves, one that waits does not.
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
		return constraints[:1] // a key may be named once
	}
	return constraints
}
