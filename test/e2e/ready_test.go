//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Labels of the brokers' pods and of the operator's pods.
var (
	brokers = client.MatchingLabels{"app.kubernetes.io/name": "heartwood",
		"app.kubernetes.io/component": "broker"}
	operators = client.MatchingLabels{"app.kubernetes.io/component": "operator"}
)

// notReady returns the reason why a resource is not Ready in its current generation, or "" if it is
// Ready.
func notReady(kind string, object client.Object, observed int64,
	conditions []metav1.Condition) string {
	name := kind + "/" + object.GetName()
	if observed != object.GetGeneration() {
		return fmt.Sprintf("%s: generation %d, observed %d", name, object.GetGeneration(), observed)
	}
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		return name + ": no condition Ready"
	case ready.Status != metav1.ConditionTrue:
		return fmt.Sprintf("%s: %s: %s", name, ready.Reason, ready.Message)
	}
	return ""
}

// waitReady waits until the expected number of LogClusters and Topics exist and all are Ready.
func (e *environment) waitReady(t *testing.T, clusters, topics int) {
	t.Helper()
	until(t, "LogClusters and Topics Ready", func(ctx context.Context) string {
		var logClusters v1alpha1.LogClusterList
		var all v1alpha1.TopicList
		if err := e.List(ctx, &logClusters); err != nil {
			return err.Error()
		}
		if err := e.List(ctx, &all); err != nil {
			return err.Error()
		}
		if len(logClusters.Items) != clusters || len(all.Items) < topics {
			return fmt.Sprintf("%d LogClusters and %d Topics", len(logClusters.Items),
				len(all.Items))
		}
		for i := range logClusters.Items {
			cluster := &logClusters.Items[i]
			if why := notReady("LogCluster", cluster, cluster.Status.ObservedGeneration,
				cluster.Status.Conditions); why != "" {
				return why
			}
		}
		for i := range all.Items {
			topic := &all.Items[i]
			if why := notReady("Topic", topic, topic.Status.ObservedGeneration,
				topic.Status.Conditions); why != "" {
				return why
			}
		}
		return ""
	})
}

// waitPod waits until the pod with the given name is ready. If previous is not nil, the pod must
// have a different UID than previous.
func (e *environment) waitPod(t *testing.T, name string, previous client.Object) {
	t.Helper()
	until(t, "pod "+name+" ready", func(ctx context.Context) string {
		var pod corev1.Pod
		if err := e.Get(ctx, client.ObjectKey{Name: name}, &pod); err != nil {
			return err.Error()
		}
		if previous != nil && pod.UID == previous.GetUID() {
			return "still the previous pod"
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "phase " + string(pod.Status.Phase)
	})
}
