package render

import (
	"encoding/json"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// placePod applies spec.pod to the pod template. The operator's labels take precedence, because
// Services and the StatefulSet use them to select the pods.
func placePod(template *corev1.PodTemplateSpec, pod *v1alpha1.Pod) {
	if pod == nil {
		return
	}
	labels := maps.Clone(pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, template.Labels)
	template.Labels = labels
	spec := &template.Spec
	spec.NodeSelector, spec.PriorityClassName = pod.NodeSelector, pod.PriorityClassName
	for _, t := range pod.Tolerations {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: t.Key,
			Operator: corev1.TolerationOperator(t.Operator), Value: t.Value,
			Effect: corev1.TaintEffect(t.Effect), TolerationSeconds: t.TolerationSeconds})
	}
	for _, secret := range pod.ImagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets,
			corev1.LocalObjectReference{Name: secret.Name})
	}
	if pod.Affinity != nil {
		affinity := &corev1.Affinity{}
		// The reconciler has validated the affinity (v1alpha1.Pod.Validate).
		if json.Unmarshal(pod.Affinity.Raw, affinity) == nil {
			spec.Affinity = affinity
		}
	}
}

// podAnnotations returns the pods' annotations: the annotations in spec.pod, and the restart
// request.
func podAnnotations(cluster *v1alpha1.LogCluster, settings Settings) map[string]string {
	var annotations map[string]string
	if cluster.Spec.Pod != nil {
		annotations = maps.Clone(cluster.Spec.Pod.Annotations)
	}
	if settings.RestartRequest != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.AnnotationRestartedFor] = settings.RestartRequest
	}
	return annotations
}

// memoryLimit returns the environment variable that makes Go's garbage collector run more often
// when the broker approaches its memory limit. The value is nine tenths of the limit, because the
// kernel also counts memory outside Go's heap. Without this variable, garbage alone could exceed
// the limit.
func memoryLimit(spec *v1alpha1.Resources) []corev1.EnvVar {
	if spec == nil {
		return nil
	}
	limit, limited := spec.Limits[string(corev1.ResourceMemory)]
	if !limited {
		return nil
	}
	return []corev1.EnvVar{{Name: "GOMEMLIMIT",
		Value: strconv.FormatInt(limit.Value()/10*9, 10)}}
}
