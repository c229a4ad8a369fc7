package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
)

// whole is a moment as the kubelet tells it: in whole seconds, cut off.
func whole(at time.Time) metav1.Time { return metav1.Time{Time: at.Truncate(time.Second)} }

func ranFrom(at time.Time) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: whole(at)}}
}

func endedAt(at time.Time) corev1.ContainerState {
	return corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: whole(at)},
	}
}

// TestAPodSpeaksOfItsOwnIncarnationOnly: the incarnation took its Lease at noon and 200 ms.
func TestAPodSpeaksOfItsOwnIncarnationOnly(t *testing.T) {
	acquired := noon.Add(200 * time.Millisecond)
	waiting := corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
	}
	for name, c := range map[string]struct {
		now, last corev1.ContainerState
		deleting  bool
		want      podWord
	}{
		"it runs": {now: ranFrom(noon.Add(-time.Second)),
			want: podSilent},
		"it ended": {now: endedAt(noon.Add(3 * time.Second)),
			want: podEnded},
		"it ended, and waits to be started": {now: waiting,
			last: endedAt(noon.Add(3 * time.Second)), want: podEnded},
		"another runs in its place": {now: ranFrom(noon.Add(5 * time.Second)),
			want: podEnded},
		"the one before ended, and it runs": {now: ranFrom(noon),
			last: endedAt(noon.Add(-time.Second)), want: podSilent},
		"the one before ended in its second": {now: ranFrom(noon),
			last: endedAt(noon.Add(100 * time.Millisecond)), want: podSilent},
		"the one before ended, nothing newer": {now: endedAt(noon.Add(-time.Second)),
			want: podSilent},
		"it ended within its first second": {now: endedAt(noon.Add(900 * time.Millisecond)),
			want: podSilent},
		"the pod is being deleted": {now: ranFrom(noon.Add(-time.Second)),
			deleting: true, want: podLeaving},
		"the pod is being deleted and it ended": {now: endedAt(noon.Add(3 * time.Second)),
			deleting: true, want: podEnded},
		"nothing is known of the container": {want: podSilent},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "sidecar", State: endedAt(noon.Add(time.Hour))},
			{Name: brokerContainer, State: c.now, LastTerminationState: c.last},
		}}}
		if c.deleting {
			pod.DeletionTimestamp = new(metav1.NewTime(noon))
		}
		if got := podSays(pod, acquired); got != c.want {
			t.Errorf("%s: the pod says %d, want %d", name, got, c.want)
		}
		if got := podSays(pod, time.Time{}); got == podEnded {
			t.Errorf("%s: it ended, by a time that is not known", name)
		}
	}
}

// TestALaterIncarnationIsNeverTakenForEnded tries many moments of an exit and a start after it, as
// the kubelet and the Lease tell them.
func TestALaterIncarnationIsNeverTakenForEnded(t *testing.T) {
	for exit := range 40 {
		for start := range 40 {
			exited := noon.Add(time.Duration(exit) * 53 * time.Millisecond)
			started := exited.Add(time.Duration(start) * 31 * time.Millisecond)
			acquired := started.Add(time.Millisecond)
			pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{Name: brokerContainer, State: ranFrom(started),
					LastTerminationState: endedAt(exited)},
			}}}
			if podSays(pod, acquired) != podSilent {
				t.Fatalf("exit %s, start %s, lease %s after noon: taken for ended",
					exited.Sub(noon), started.Sub(noon), acquired.Sub(noon))
			}
		}
	}
}

func TestThePodHasTheNameOfTheLease(t *testing.T) {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "logs"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 1}}
	for _, object := range render.Cluster(cluster, render.Settings{Image: "image"}) {
		if object.GetObjectKind().GroupVersionKind().Kind != "StatefulSet" {
			continue
		}
		if pod := object.GetName() + "-0"; pod != v1alpha1.BrokerLeaseName("main", 0) {
			t.Errorf("the pod is %s, its Lease %s", pod, v1alpha1.BrokerLeaseName("main", 0))
		}
		return
	}
	t.Error("no StatefulSet is rendered")
}

var errAway = errors.New("connection refused")

func notFound(key client.ObjectKey) error {
	return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
}

// podReading is a way to the API server that knows one Lease and perhaps one pod.
type podReading struct {
	reading
	pod *corev1.Pod
}

func (r *podReading) Get(ctx context.Context, key client.ObjectKey, into client.Object,
	options ...client.GetOption) error {
	pod, isPod := into.(*corev1.Pod)
	switch {
	case !isPod:
		return r.reading.Get(ctx, key, into, options...)
	case r.err != nil:
		return r.err
	case r.pod == nil:
		return notFound(key)
	}
	*pod = *r.pod
	return nil
}

// TestAPodThatTheWatchDoesNotKnowIsAskedFor: a watch that is behind must not end a broker, and a
// pod that is gone must.
func TestAPodThatTheWatchDoesNotKnowIsAskedFor(t *testing.T) {
	lease := leaseAt("a", time.Now(), 3)
	lease.Annotations[v1alpha1.AnnotationPod] = "new"
	pod := func(uid string, deleting bool) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
		if deleting {
			pod.DeletionTimestamp = new(metav1.Now())
		}
		return pod
	}
	for name, c := range map[string]struct {
		cached, live *corev1.Pod
		liveErr      error
		life         placement.Liveness
		leaving      bool
	}{
		"the watch knows it": {cached: pod("new", false),
			life: placement.Up},
		"it is being deleted": {cached: pod("new", true),
			life: placement.Up, leaving: true},
		"the watch has the one before, which goes": {cached: pod("old", true),
			live: pod("new", false), life: placement.Up},
		"the watch has none yet": {live: pod("new", false),
			life: placement.Up},
		"it is gone": {life: placement.Down},
		"another is in its place": {cached: pod("newest", false),
			live: pod("newest", false), life: placement.Down},
		"nobody can be asked": {cached: pod("old", true),
			liveErr: errAway, life: placement.Up},
		"the watch has the one before, and it goes itself": {cached: pod("old", false),
			live: pod("new", true), life: placement.Up, leaving: true},
	} {
		live := &podReading{reading{lease: lease, err: c.liveErr}, c.live}
		brokers := newBrokers(&podReading{reading{lease: lease}, c.cached}, live)
		// the second time what was found out is remembered, or not asked for so soon
		for again := range 2 {
			state, _, err := brokers.look(t.Context(), types.NamespacedName{Name: "main-broker-0"})
			if err != nil || state.Liveness != c.life ||
				(again == 0 && state.Leaving != c.leaving) {
				t.Errorf("%s: %+v, %v; want life %d, leaving %v", name, state, err, c.life,
					c.leaving)
			}
		}
	}
}
