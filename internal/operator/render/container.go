package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// certificatesDir is the mount path of Secret <cluster>-brokers-tls.
const certificatesDir = "/etc/heartwood/certificates"

// dataDir is the mount path of a broker's volume, the only directory to which the broker can write.
const dataDir = "/data"

// Image returns the brokers' image: spec.image or, by default, the operator's own image. With the
// default, brokers and operator have the same version.
func Image(cluster *v1alpha1.LogCluster, settings Settings) string {
	return cmp.Or(cluster.Spec.Image, settings.Image)
}

// container renders the broker's container. The file system is read-only except for dataDir.
func container(cluster *v1alpha1.LogCluster, settings Settings) corev1.Container {
	return corev1.Container{
		Name:            ContainerName,
		Image:           Image(cluster, settings),
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            arguments(cluster),
		Env: append([]corev1.EnvVar{
			fieldVariable("POD_NAME", "metadata.name"),
			fieldVariable("POD_NAMESPACE", "metadata.namespace"),
			fieldVariable("POD_UID", "metadata.uid"),
			fieldVariable("POD_IP", "status.podIP"),
		}, memoryLimit(cluster.Spec.Resources)...),
		Ports:     containerPorts(cluster),
		Resources: resources(cluster.Spec.Resources),
		// Recovery after a crash can require reading a large part of the disk. The startup probe allows
		// half an hour for it (900 times 2 s). The other probes do not run during this time.
		StartupProbe:   probe(cluster, "/healthz", 2, 900),
		LivenessProbe:  liveness(cluster),
		ReadinessProbe: probe(cluster, "/readyz", 2, 3),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: volumeMounts(cluster),
	}
}

// arguments returns the arguments for the command heartwood broker (cmd/heartwood/broker.go). The
// broker derives its id from the number at the end of the pod's name. The kubelet replaces $(NAME)
// with the value of the container's environment variable NAME.
//
// The broker advertises the host name of its own pod to clients. An address shared by all brokers
// would not suffice, because clients must connect to the leader of each partition. Brokers connect
// to each other by pod IP. A host name can resolve to the previous pod until DNS caches expire, and
// does not resolve while DNS is unavailable.
func arguments(cluster *v1alpha1.LogCluster) []string {
	port := portKafka(cluster)
	arguments := []string{
		"broker",
		"--cluster=" + cluster.Name,
		"--namespace=$(POD_NAMESPACE)",
		"--pod-name=$(POD_NAME)",
		"--pod-uid=$(POD_UID)",
		"--pod-ip=$(POD_IP)",
		"--data-dir=" + dataDir,
		fmt.Sprintf("--listen=:%d", port),
		fmt.Sprintf("--advertise=$(POD_NAME).%s.$(POD_NAMESPACE).svc:%d",
			HeadlessName(cluster.Name), port),
		fmt.Sprintf("--http=:%d", portHTTP),
	}
	if !plainListener(cluster) {
		arguments = append(arguments, "--listeners="+listenersArgument(cluster))
	}
	if cluster.Spec.Secured() {
		arguments = append(arguments, fmt.Sprintf("--peer-listen=:%d", v1alpha1.PeerPort),
			"--certificates="+certificatesDir)
	}
	if cluster.Spec.MetricsAuthorized() {
		arguments = append(arguments, "--http-metrics="+string(v1alpha1.HTTPMetricsAuthorized))
	}
	if cluster.Spec.Pprof {
		arguments = append(arguments, "--pprof")
	}
	return arguments
}

// plainListener reports whether a LogCluster has a single listener that can be described by its
// port alone.
func plainListener(cluster *v1alpha1.LogCluster) bool {
	all := cluster.Spec.Listeners.OrDefault()
	return len(all) == 1 && all[0].Name == v1alpha1.DefaultListenerName && internal(&all[0]) &&
		all[0].TLS == nil && len(all[0].Authentication) == 0 && all[0].MaxConnections == nil &&
		all[0].MaxAuthenticationFailures == nil
}

// listenersArgument returns the listeners as JSON. It contains only the fields that brokers use, so
// that changes of other fields do not restart the brokers. The kubelet replaces $$ with $.
func listenersArgument(cluster *v1alpha1.LogCluster) string {
	var all []v1alpha1.Listener
	for _, l := range cluster.Spec.Listeners.OrDefault() {
		used := v1alpha1.Listener{Name: l.Name, Port: l.Port, MaxReauth: l.MaxReauth,
			MaxConnections: l.MaxConnections, MaxAuthenticationFailures: l.MaxAuthenticationFailures}
		if l.TLS != nil {
			used.TLS = &v1alpha1.ListenerTLS{}
		}
		for _, a := range l.Authentication {
			a.ClientCAs = nil
			if a.OAuth != nil {
				a.OAuth = a.OAuth.DeepCopy()
				a.OAuth.CA = nil
			}
			used.Authentication = append(used.Authentication, a)
		}
		all = append(all, used)
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		panic(err) // impossible: every value of this type can be encoded
	}
	return strings.ReplaceAll(string(encoded), "$", "$$")
}

// volumeMounts returns the mounts of a broker's container.
func volumeMounts(cluster *v1alpha1.LogCluster) []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{{Name: volumeData, MountPath: dataDir}}
	if cluster.Spec.Secured() {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeCertificates, ReadOnly: true,
			MountPath: certificatesDir})
	}
	return mounts
}

// volumes returns the volumes of a broker's pod, except its data volume. Certificates are mounted
// from a Secret, so that a broker has them even if it starts while the API server is unavailable.
func volumes(cluster *v1alpha1.LogCluster) []corev1.Volume {
	if !cluster.Spec.Secured() {
		return nil
	}
	return []corev1.Volume{{Name: volumeCertificates, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{DefaultMode: new(int32(0o440)),
			SecretName: v1alpha1.BrokersTLSSecretName(cluster.Name)}}}}
}

// fieldVariable returns an environment variable whose value is one of the pod's fields.
func fieldVariable(name, path string) corev1.EnvVar {
	return corev1.EnvVar{
		Name: name,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1",
			FieldPath: path}},
	}
}

// probe returns an HTTP probe for a path. Each attempt has a timeout of 5 s. The probe fails after
// the given number of consecutive failures. With TLS, the kubelet does not verify the certificate.
func probe(cluster *v1alpha1.LogCluster, path string, periodSeconds,
	failures int32) *corev1.Probe {
	scheme := corev1.URISchemeHTTP
	if cluster.Spec.Secured() {
		scheme = corev1.URISchemeHTTPS
	}
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Scheme: scheme,
				Port: intstr.FromString(httpPortName(cluster))},
		},
		PeriodSeconds:    periodSeconds,
		TimeoutSeconds:   5,
		FailureThreshold: failures,
	}
}

// hungSeconds is the time between SIGTERM and SIGKILL for a broker that has failed its liveness
// probe. Such a broker does not answer HTTP requests, so it would rarely stop within stopSeconds.
// Until it is killed, its clients wait on their open connections.
const hungSeconds = 5

// liveness returns the probe that restarts a broker that hangs.
func liveness(cluster *v1alpha1.LogCluster) *corev1.Probe {
	restarts := probe(cluster, "/healthz", 10, 3)
	restarts.TerminationGracePeriodSeconds = new(int64(hungSeconds))
	return restarts
}

func resources(spec *v1alpha1.Resources) corev1.ResourceRequirements {
	if spec == nil {
		return corev1.ResourceRequirements{}
	}
	return corev1.ResourceRequirements{Requests: resourceList(spec.Requests),
		Limits: resourceList(spec.Limits)}
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
