//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// logLost stops all brokers, removes the preferred leader's log of a partition from its volume, and
// starts the brokers again. Another in-sync replica must lead without consent, whichever broker
// returns first. The replica gets another incarnation id and therefore copies the log; every
// acknowledged record must then be readable. If the preferred leader is the last in-sync replica
// once all brokers have stopped, another replica loses its log, because the loss of the last one
// would wait for consent.
func (e *environment) logLost(t *testing.T) {
	e.mustCall(t, "POST", "produce", "topic", failover, "keys", "100", "rounds", "3")
	e.waitInSync(t)
	before := e.partition(t, failover, 0)
	id := before.Replicas[0]
	brokers := map[int32]*corev1.Pod{}
	for _, id := range before.Replicas {
		brokers[id] = &corev1.Pod{}
		if err := e.Get(t.Context(), client.ObjectKey{Name: brokerPod(id)}, brokers[id]); err != nil {
			t.Fatal(err)
		}
	}
	e.whileStopped(t, func() {
		if isr := e.partition(t, failover, 0).ISR; len(isr) == 1 && isr[0].Broker == id {
			id = before.Replicas[1]
		}
		e.removeFromVolume(t, brokers[id], "/data/"+failover+"-0")
	})
	until(t, "another incarnation of the replica", func(ctx context.Context) string {
		all, err := e.partitions(ctx, failover)
		if err != nil {
			return err.Error()
		}
		if now := all[0]; now.ReplicaIncarnations[id] == before.ReplicaIncarnations[id] {
			return fmt.Sprintf("%+v", now)
		}
		return ""
	})
	e.waitReady(t, 1, topics)
	e.waitInSync(t)
	e.checkAllRecords(t, failover)
}

// whileStopped pauses the LogCluster, stops all brokers gracefully, calls do, and starts the
// brokers again.
func (e *environment) whileStopped(t *testing.T, do func()) {
	t.Helper()
	scale := func(replicas int) []string {
		return []string{"scale", "statefulset", logCluster + "-broker",
			fmt.Sprintf("--replicas=%d", replicas)}
	}
	e.kubectl(t, "annotate", "logcluster", logCluster, v1alpha1.AnnotationPaused+"=true")
	e.kubectl(t, "wait", "logcluster", logCluster, "--timeout=1m",
		"--for=jsonpath={.status.conditions[?(@.type=='Applied')].reason}="+v1alpha1.ReasonPaused)
	e.kubectl(t, scale(0)...)
	for id := range int32(brokerCount) {
		e.waitDeleted(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: brokerPod(id)}})
	}
	defer func() {
		e.kubectl(t, scale(brokerCount)...)
		e.kubectl(t, "annotate", "logcluster", logCluster, v1alpha1.AnnotationPaused+"-")
	}()
	do()
}

// removeFromVolume removes a directory from a stopped broker's volume. It uses a pod with the claim
// and the permissions of the broker's pod.
func (e *environment) removeFromVolume(t *testing.T, broker *corev1.Pod, path string) {
	t.Helper()
	from := broker.Spec.Containers[0]
	no := false
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "remover", Namespace: e.namespace},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
			AutomountServiceAccountToken: &no, SecurityContext: broker.Spec.SecurityContext,
			Containers: []corev1.Container{{Name: "remover", Image: e.clientImage,
				Args: []string{"--remove", path}, SecurityContext: from.SecurityContext}}}}
	for _, volume := range broker.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
		for _, mount := range from.VolumeMounts {
			if mount.Name == volume.Name {
				pod.Spec.Containers[0].VolumeMounts = append(
					pod.Spec.Containers[0].VolumeMounts, mount)
			}
		}
	}
	if err := e.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	until(t, path+" removed", func(ctx context.Context) string {
		if err := e.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		if pod.Status.Phase == corev1.PodFailed {
			t.Fatalf("failed to remove %s:\n%s", path, e.kubectl(t, "logs", pod.Name))
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return string(pod.Status.Phase)
		}
		return ""
	})
	e.kubectl(t, "delete", "pod", pod.Name)
}
