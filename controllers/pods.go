package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A broker's Lease ends seconds after the broker. Its pod tells at once, where the kubelet saw the
// container exit, or the pod is deleted: word that only ever comes sooner than the Lease's end, and
// never stands against a later incarnation.

// brokerContainer is the container of a broker's pod that runs the broker; see
// internal/operator/render.
const brokerContainer = "broker"

// podWord is what a pod says of an incarnation.
type podWord int

const (
	podSilent  podWord = iota // nothing, or it runs
	podLeaving                // it is being deleted, and has its grace period to stop in order
	podEnded                  // the process is gone
)

// podSays reads what the pod of an incarnation says of it. acquired is when the incarnation took
// its Lease.
//
// The container's times come from the node's clock, which is the one that acquired was read from,
// so they may be compared. They are whole seconds, cut off: an exit at or after acquired is this
// incarnation's own, since a later one acquires after the exit, thus after what it is cut off to.
// One that lived less than a second may go unseen, until its Lease ends.
func podSays(pod *corev1.Pod, acquired time.Time) podWord {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != brokerContainer || acquired.IsZero() {
			continue
		}
		for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
			if ended := state.Terminated; ended != nil && !ended.FinishedAt.IsZero() &&
				!ended.FinishedAt.Time.Before(acquired) {
				return podEnded
			}
		}
		if running := status.State.Running; running != nil && running.StartedAt.After(acquired) {
			return podEnded // it is another start that runs
		}
	}
	if pod.DeletionTimestamp != nil {
		return podLeaving
	}
	return podSilent
}

// podMemory is what was found out about the pod that a Lease names.
type podMemory struct {
	uid   string
	gone  bool      // for ever: no uid comes twice
	asked time.Time // the API server itself
}

// podAskInterval bounds how often the API server is asked for one pod that the watch does not know.
const podAskInterval = time.Second

// askPod returns what is known of the incarnation of a Lease by its pod. The pod has the name of
// the Lease.
//
// The watch of pods may be behind that of Leases: a pod that it has not brought, or brings under
// the uid of an earlier one, proves nothing. Then the API server itself is asked. If it has no pod
// of that uid, that pod was deleted: the Lease, which names it, was written when it was there.
func (b *brokers) askPod(ctx context.Context, key types.NamespacedName, seen sighting) (podWord,
	error) {
	if seen.pod == "" {
		return podSilent, nil
	}
	pod, err := getPod(ctx, b.cached, key)
	if err != nil {
		return podSilent, err
	}
	if pod != nil && string(pod.UID) == seen.pod {
		return podSays(pod, seen.acquired), nil
	}
	if known, ask := b.podKnown(key, seen.pod, time.Now()); !ask {
		return known, nil
	}
	asking, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	pod, err = getPod(asking, b.live, key)
	switch {
	case err != nil: // no proof of anything
		return podSilent, nil
	case pod == nil || string(pod.UID) != seen.pod:
		b.podGone(key, seen.pod)
		return podEnded, nil
	}
	return podSays(pod, seen.acquired), nil
}

// podKnown returns what is remembered of a pod, or that it is time to ask; whoever is told so is
// the one who asks.
func (b *brokers) podKnown(key types.NamespacedName, uid string, now time.Time) (word podWord,
	ask bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	memory := b.mu.pods[key]
	switch {
	case memory.uid == uid && memory.gone:
		return podEnded, false
	case memory.uid == uid && now.Sub(memory.asked) < podAskInterval:
		return podSilent, false
	}
	b.mu.pods[key] = podMemory{uid: uid, asked: now}
	return podSilent, true
}

func (b *brokers) podGone(key types.NamespacedName, uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.pods[key] = podMemory{uid: uid, gone: true}
}

// getPod reads a pod; nil if there is none.
func getPod(ctx context.Context, reader client.Reader, key types.NamespacedName) (*corev1.Pod,
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

// leanPod drops what nobody here reads of a pod, before the cache keeps it.
func leanPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	lean := &corev1.Pod{TypeMeta: pod.TypeMeta}
	lean.Name, lean.Namespace, lean.UID, lean.Labels = pod.Name, pod.Namespace, pod.UID, pod.Labels
	lean.ResourceVersion, lean.DeletionTimestamp = pod.ResourceVersion, pod.DeletionTimestamp
	lean.Spec.NodeName = pod.Spec.NodeName
	lean.Status.ContainerStatuses = pod.Status.ContainerStatuses
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			lean.Status.Conditions = []corev1.PodCondition{condition}
		}
	}
	return lean, nil
}
