package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// dataDir is where a broker's volume is mounted: the only place it can write to.
const dataDir = "/data"

// container is the broker's container. Its image is the LogCluster's own or the operator's, so that
// by default both halves are of one version. Nothing of its file system but dataDir can be written.
func container(cluster *v1alpha1.LogCluster, settings Settings) corev1.Container {
	image := cluster.Spec.Image
	if image == "" {
		image = settings.Image
	}
	return corev1.Container{
		Name:            "broker",
		Image:           image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            arguments(cluster),
		Env: []corev1.EnvVar{
			fieldVariable("POD_NAME", "metadata.name"),
			fieldVariable("POD_NAMESPACE", "metadata.namespace"),
			fieldVariable("POD_UID", "metadata.uid"),
			fieldVariable("POD_IP", "status.podIP"),
		},
		Ports: []corev1.ContainerPort{
			{Name: portNameKafka, ContainerPort: portKafka(cluster), Protocol: corev1.ProtocolTCP},
			{Name: portNameHTTP, ContainerPort: portHTTP, Protocol: corev1.ProtocolTCP},
		},
		Resources: resources(cluster.Spec.Resources),
		// Recovery after a crash may read much of the disk: half an hour (900 times 2 s), and no
		// other probe asks before.
		StartupProbe:   probe("/healthz", 2, 900),
		LivenessProbe:  probe("/healthz", 10, 3),
		ReadinessProbe: probe("/readyz", 2, 3),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: volumeData, MountPath: dataDir}},
	}
}

// arguments are the command line of cmd/heartwood's broker command. The node id is the number at
// the end of the pod's name. $(NAME) is filled in by the kubelet, from the container's environment.
// Clients are told the pod's own host name: only the leader of a partition answers for it, so an
// address that any broker answers would not do. Brokers themselves use the pod's address: a name
// may lead to the pod before for as long as caches of DNS live, and to nowhere while DNS is down.
func arguments(cluster *v1alpha1.LogCluster) []string {
	port := portKafka(cluster)
	return []string{
		"broker",
		"--cluster=" + cluster.Name,
		"--namespace=$(POD_NAMESPACE)",
		"--pod-name=$(POD_NAME)",
		"--pod-uid=$(POD_UID)",
		"--pod-ip=$(POD_IP)",
		"--data-dir=" + dataDir,
		fmt.Sprintf("--listen=:%d", port),
		fmt.Sprintf("--advertise=$(POD_NAME).%s.$(POD_NAMESPACE).svc:%d",
			headlessName(cluster.Name), port),
		fmt.Sprintf("--http=:%d", portHTTP),
	}
}

// fieldVariable is an environment variable that holds a field of the pod.
func fieldVariable(name, path string) corev1.EnvVar {
	return corev1.EnvVar{
		Name: name,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1",
			FieldPath: path}},
	}
}

// probe asks path by HTTP each periodSeconds, 5 s a time, and fails after so many failures in a
// row.
func probe(path string, periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(portNameHTTP),
				Scheme: corev1.URISchemeHTTP},
		},
		PeriodSeconds:    periodSeconds,
		TimeoutSeconds:   5,
		FailureThreshold: failures,
	}
}

func resources(asked *v1alpha1.Resources) corev1.ResourceRequirements {
	if asked == nil {
		return corev1.ResourceRequirements{}
	}
	return corev1.ResourceRequirements{Requests: resourceList(asked.Requests),
		Limits: resourceList(asked.Limits)}
}

func resourceList(quantities map[string]resource.Quantity) corev1.ResourceList {
	if len(quantities) == 0 {
		return nil
	}
	list := corev1.ResourceList{}
	for name, quantity := range quantities {
		list[corev1.ResourceName(name)] = quantity
	}
	return list
}
