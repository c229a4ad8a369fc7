package health

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// restartsMany is the minimum number of container restarts that makes a pod that is not ready a
// finding.
const restartsMany = 3

// statusDelay is longer than the operator needs to write an observation to the status.
const statusDelay = time.Minute

// Pods returns the findings about brokers' pods, or none if the pods could not be read. A pod that
// is not ready is a finding if the broker is ready according to the status, because the status is
// outdated while the operator does not run.
func Pods(in Input) []Finding {
	if in.Pods == nil {
		return nil
	}
	var found []Finding
	explained := map[string]bool{} // by name of the pod
	for i := range in.Pods {
		findings := starts(in.Cluster, &in.Pods[i])
		found, explained[in.Pods[i].Name] = append(found, findings...), len(findings) > 0
	}
	for _, b := range in.Cluster.Status.Brokers {
		name := v1alpha1.BrokerLeaseName(in.Cluster.Name, b.ID)
		problem := unready(PodOf(in.Pods, in.Cluster.Name, b.ID), in.Now)
		if !b.Ready || problem == nil || explained[name] || restarting(in, b, problem) {
			continue
		}
		found = append(found, newFinding(Warning, "Pod "+name, problem.reason, fmt.Sprintf(
			"%s According to the status, broker %d is ready. If this lasts for more than a minute, "+
				"the operator probably does not run.", problem.message, b.ID), checkOperator))
	}
	return found
}

// PodOf returns a broker's pod, or nil if it does not exist.
func PodOf(pods []corev1.Pod, cluster string, broker int32) *corev1.Pod {
	for i := range pods {
		if pods[i].Name == v1alpha1.BrokerLeaseName(cluster, broker) {
			return &pods[i]
		}
	}
	return nil
}

// PodReady reports whether a pod exists, is ready and is not being deleted.
func PodReady(pod *corev1.Pod) bool { return unready(pod, time.Time{}) == nil }

// podProblem is the reason why a pod is not ready.
type podProblem struct {
	reason, message string
	since           time.Time
}

// unready returns why a broker's pod is not ready, or nil if it is ready. A pod that does not exist
// (nil) counts as missing since now.
func unready(pod *corev1.Pod, now time.Time) *podProblem {
	if pod == nil {
		return &podProblem{"PodMissing", "The pod does not exist.", now}
	}
	if moment := pod.DeletionTimestamp; moment != nil {
		var grace time.Duration
		if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
			grace = time.Duration(*seconds) * time.Second
		}
		return &podProblem{"PodTerminating", "The pod is being deleted.", moment.Add(-grace)}
	}
	problem := &podProblem{"PodNotReady", "The pod is not ready.", pod.CreationTimestamp.Time}
	for _, condition := range pod.Status.Conditions {
		switch {
		case condition.Type != corev1.PodReady:
		case condition.Status == corev1.ConditionTrue:
			return nil
		default:
			problem.since = condition.LastTransitionTime.Time
			if text := cmp.Or(condition.Message, condition.Reason); text != "" {
				problem.message = "The pod is not ready: " + text + "."
			}
		}
	}
	return problem
}

// restarting reports whether the broker's pod is not ready because of a rolling update: the
// operator deletes the pod before it sets the broker to not ready in the status.
func restarting(in Input, b v1alpha1.BrokerStatus, problem *podProblem) bool {
	return b.RestartReason != "" && in.Now.Sub(problem.since) < statusDelay &&
		meta.IsStatusConditionTrue(in.Cluster.Status.Conditions, v1alpha1.ConditionRollingOut)
}

// starts returns the findings about a pod that does not start.
func starts(c *v1alpha1.LogCluster, pod *corev1.Pod) []Finding {
	var found []Finding
	add := func(reason, message, next string) {
		found = append(found, newFinding(Warning, "Pod "+pod.Name, reason, message,
			scoped(c, next)))
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			add(condition.Reason, condition.Message, "kubectl describe pod "+pod.Name)
		}
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses,
		pod.Status.ContainerStatuses) {
		waiting := container.State.Waiting
		ended := container.LastTerminationState.Terminated
		var reason, message string
		switch {
		case waiting != nil && waiting.Reason != "ContainerCreating" &&
			waiting.Reason != "PodInitializing":
			reason, message = waiting.Reason, cmp.Or(waiting.Message, "The container waits.")
		case !container.Ready && container.RestartCount >= restartsMany:
			reason, message = "RestartedOften", "The container has been restarted "+
				strconv.Itoa(int(container.RestartCount))+" times and is not ready."
		default:
			continue
		}
		if ended != nil && ended.Reason == outOfMemory && waits[reason].crashed {
			reason = outOfMemory
		}
		help := waits[reason]
		if help.text != "" {
			message = strings.TrimSuffix(message, ".") + ". " + help.text
		}
		add(reason, message, help.next(c, pod, container.Name))
	}
	return found
}

// outOfMemory is the reason if a container was killed because of its memory limit.
const outOfMemory = "OOMKilled"

// wait describes how to handle a container that does not run.
type wait struct {
	crashed bool   // the container has run, so its previous log shows why it exited
	edit    bool   // the LogCluster must be changed
	text    string // advice
}

// waits contains the advice for each reason why a container does not run. For other reasons, the
// advice is to read the pod's events.
var waits = map[string]wait{
	"CrashLoopBackOff": {crashed: true}, "RestartedOften": {crashed: true},
	outOfMemory: {edit: true, text: "It was killed because it used more memory than its limit: " +
		"raise resources.limits.memory of the LogCluster, or lower cleaner.memory."},
	"ErrImagePull": image, "ImagePullBackOff": image, "InvalidImageName": image,
	"ErrImageNeverPull": image, "ImageInspectError": image, "RegistryUnavailable": image,
	"SignatureValidationFailed": image,
	"CreateContainerConfigError": {text: "A Secret or ConfigMap that the pod names is missing or " +
		"lacks a key: create it. The events of the pod name it."},
	"CreateContainerError": {text: "The container runtime has refused the container: the events " +
		"of the pod say why."},
	"RunContainerError": {text: "The container runtime could not start the container: the events " +
		"of the pod say why."},
}

var image = wait{edit: true, text: "The image cannot be used: correct image of the LogCluster, " +
	"add pod.imagePullSecrets, or make the registry reachable. The operator's --image is the default."}

// next returns the command that helps.
func (w wait) next(c *v1alpha1.LogCluster, pod *corev1.Pod, container string) string {
	switch {
	case w.crashed:
		return fmt.Sprintf("kubectl logs --previous %s -c %s", pod.Name, container)
	case w.edit:
		return "kubectl edit logcluster " + c.Name
	}
	return "kubectl describe pod " + pod.Name
}
