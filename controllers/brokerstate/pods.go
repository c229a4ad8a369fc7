package brokerstate

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// BrokerContainer is the name of the container that runs the broker in a broker's pod; see
// internal/operator/render.
const BrokerContainer = "broker"

// podReadInterval is the minimum interval between two reads of one pod from the API server itself.
const podReadInterval = time.Second

// podEvidence states what a pod's state proves about a broker epoch.
type podEvidence int

const (
	podNone podEvidence = iota // no proof that the broker process has exited
	// The pod is being deleted. The broker can run until the grace period ends.
	podTerminating
	podExited // the broker process has exited
)

// evidenceOf returns what the pod of a broker epoch proves about that epoch. acquired is the time
// at which the epoch acquired its Lease (ADR 0140).
//
// Both the container's times and acquired come from the same node's clock, so they can be compared.
// The container's times are truncated to whole seconds. An exit at or after acquired belongs to
// this epoch. It cannot belong to an earlier epoch, because an epoch acquires its Lease after the
// previous process has exited, so acquired is later than the (truncated) time of that exit. If the
// process exits in the same second in which it acquired its Lease, the exit is not detected until
// the Lease expires.
func evidenceOf(pod *corev1.Pod, acquired time.Time) podEvidence {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != BrokerContainer || acquired.IsZero() {
			continue
		}
		for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
			if exit := state.Terminated; exit != nil && !exit.FinishedAt.IsZero() &&
				!exit.FinishedAt.Time.Before(acquired) {
				return podExited
			}
		}
		if running := status.State.Running; running != nil && running.StartedAt.After(acquired) {
			return podExited // the container was restarted after the epoch had started
		}
	}
	if pod.DeletionTimestamp != nil {
		return podTerminating
	}
	return podNone
}

// podRead is the result of reading a broker's pod from the API server itself.
type podRead struct {
	uid     string
	deleted bool // final, because a uid is never used again
	readAt  time.Time
}

// podEvidence returns what a broker epoch's pod proves about that epoch. The pod and the Lease have
// the same name.
//
// The watch of pods may be behind the watch of Leases. If it has not delivered the pod that the
// Lease names, or has delivered an earlier pod of the same name, podEvidence reads the pod from the
// API server itself. If the API server has no pod with this uid, the pod was deleted, because it
// existed when the broker wrote the uid into the Lease.
func (t *Tracker) podEvidence(ctx context.Context, key types.NamespacedName,
	seen observation) (podEvidence, error) {
	if seen.pod == "" {
		return podNone, nil
	}
	pod, err := GetPod(ctx, t.cached, key)
	if err != nil {
		return podNone, err
	}
	if pod != nil && string(pod.UID) == seen.pod {
		return evidenceOf(pod, seen.acquired), nil
	}
	if known, read := t.beginPodRead(key, seen.pod, time.Now()); !read {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	pod, err = GetPod(ctx, t.live, key)
	switch {
	case err != nil: // a failed read proves nothing
		return podNone, nil
	case pod == nil || string(pod.UID) != seen.pod:
		t.recordDeletedPod(key, seen.pod)
		return podExited, nil
	}
	return evidenceOf(pod, seen.acquired), nil
}

// beginPodRead reports in read whether the caller must now read a pod from the API server.
// Otherwise the caller uses known, which is the result of an earlier read, or podNone because the
// last read is too recent.
func (t *Tracker) beginPodRead(key types.NamespacedName, uid string,
	now time.Time) (known podEvidence, read bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.mu.podReads[key]
	switch {
	case last.uid == uid && last.deleted:
		return podExited, false
	case last.uid == uid && now.Sub(last.readAt) < podReadInterval:
		return podNone, false
	}
	t.mu.podReads[key] = podRead{uid: uid, readAt: now}
	return podNone, true
}

func (t *Tracker) recordDeletedPod(key types.NamespacedName, uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.podReads[key] = podRead{uid: uid, deleted: true}
}

// GetPod reads a pod. It returns nil if the pod does not exist.
func GetPod(ctx context.Context, reader client.Reader, key types.NamespacedName) (*corev1.Pod,
	error) {
	pod := &corev1.Pod{}
	if err := reader.Get(ctx, key, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get pod %s: %w", key, err)
	}
	return pod, nil
}

// TrimPod is a cache transform that removes the fields of a pod that no controller reads.
func TrimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	trimmed := &corev1.Pod{TypeMeta: pod.TypeMeta}
	trimmed.Name, trimmed.Namespace, trimmed.UID = pod.Name, pod.Namespace, pod.UID
	trimmed.Labels, trimmed.ResourceVersion = pod.Labels, pod.ResourceVersion
	for _, key := range []string{v1alpha1.AnnotationRestart, v1alpha1.AnnotationRestartedFor} {
		if value := pod.Annotations[key]; value != "" {
			metav1.SetMetaDataAnnotation(&trimmed.ObjectMeta, key, value)
		}
	}
	trimmed.CreationTimestamp, trimmed.DeletionTimestamp = pod.CreationTimestamp,
		pod.DeletionTimestamp
	if slices.Contains(pod.Finalizers, v1alpha1.FinalizerReplaceVolume) {
		trimmed.Finalizers = []string{v1alpha1.FinalizerReplaceVolume}
	}
	trimmed.Spec.NodeName = pod.Spec.NodeName
	trimmed.Status.ContainerStatuses = pod.Status.ContainerStatuses
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			trimmed.Status.Conditions = []corev1.PodCondition{condition}
		}
	}
	return trimmed, nil
}
