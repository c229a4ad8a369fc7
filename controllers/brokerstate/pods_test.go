package brokerstate

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

// wholeSeconds truncates a time to whole seconds, like the kubelet.
func wholeSeconds(exact time.Time) metav1.Time {
	return metav1.Time{Time: exact.Truncate(time.Second)}
}

func runningSince(start time.Time) corev1.ContainerState {
	return corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: wholeSeconds(start)},
	}
}

func exitedAt(end time.Time) corev1.ContainerState {
	return corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: wholeSeconds(end)},
	}
}

// TestPodIsEvidenceOfItsOwnBrokerEpoch checks what each state of a pod proves about its broker
// epoch. The epoch acquired its Lease 200 ms after noon.
func TestPodIsEvidenceOfItsOwnBrokerEpoch(t *testing.T) {
	acquired := noon.Add(200 * time.Millisecond)
	waiting := corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
	}
	for name, c := range map[string]struct {
		now, last corev1.ContainerState
		deleting  bool
		want      podEvidence
	}{
		"running": {now: runningSince(noon.Add(-time.Second)),
			want: podNone},
		"exited": {now: exitedAt(noon.Add(3 * time.Second)),
			want: podExited},
		"exited, waiting for a restart": {now: waiting,
			last: exitedAt(noon.Add(3 * time.Second)), want: podExited},
		"restarted": {now: runningSince(noon.Add(5 * time.Second)),
			want: podExited},
		"running, previous epoch exited": {now: runningSince(noon),
			last: exitedAt(noon.Add(-time.Second)), want: podNone},
		"running, previous epoch exited in the same second": {now: runningSince(noon),
			last: exitedAt(noon.Add(100 * time.Millisecond)), want: podNone},
		"previous epoch exited, nothing newer": {now: exitedAt(noon.Add(-time.Second)),
			want: podNone},
		"exited within its first second": {now: exitedAt(noon.Add(900 * time.Millisecond)),
			want: podNone},
		"pod is being deleted": {now: runningSince(noon.Add(-time.Second)),
			deleting: true, want: podTerminating},
		"pod is being deleted, container exited": {now: exitedAt(noon.Add(3 * time.Second)),
			deleting: true, want: podExited},
		"no container status": {want: podNone},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "sidecar", State: exitedAt(noon.Add(time.Hour))},
			{Name: BrokerContainer, State: c.now, LastTerminationState: c.last},
		}}}
		if c.deleting {
			pod.DeletionTimestamp = new(metav1.NewTime(noon))
		}
		if got := evidenceOf(pod, acquired); got != c.want {
			t.Errorf("%s: got evidence %d, want %d", name, got, c.want)
		}
		if got := evidenceOf(pod, time.Time{}); got == podExited {
			t.Errorf("%s: got exited although the acquire time is unknown, want any other evidence", name)
		}
	}
}

// TestPodIsNoEvidenceAgainstALaterBrokerEpoch checks that the exit of an earlier process does not
// count against a later epoch. A process exits, and the next one starts and acquires the Lease. For
// many combinations of these times, the pod must not prove an exit of the new epoch.
func TestPodIsNoEvidenceAgainstALaterBrokerEpoch(t *testing.T) {
	for exit := range 40 {
		for start := range 40 {
			exited := noon.Add(time.Duration(exit) * 53 * time.Millisecond)
			started := exited.Add(time.Duration(start) * 31 * time.Millisecond)
			acquired := started.Add(time.Millisecond)
			pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{Name: BrokerContainer, State: runningSince(started),
					LastTerminationState: exitedAt(exited)},
			}}}
			if evidenceOf(pod, acquired) != podNone {
				t.Fatalf("exit %s, start %s, lease %s after noon: got evidence of an exit, want none",
					exited.Sub(noon), started.Sub(noon), acquired.Sub(noon))
			}
		}
	}
}

func TestPodAndLeaseHaveTheSameName(t *testing.T) {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "logs"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 1}}
	for _, object := range render.Cluster(cluster, render.Settings{Image: "image"}) {
		if object.GetObjectKind().GroupVersionKind().Kind != "StatefulSet" {
			continue
		}
		if pod := object.GetName() + "-0"; pod != v1alpha1.BrokerLeaseName("main", 0) {
			t.Errorf("got pod %s, want the name of the lease, %s", pod, v1alpha1.BrokerLeaseName("main", 0))
		}
		return
	}
	t.Error("no StatefulSet is rendered")
}

var errUnavailable = errors.New("connection refused")

// podReader is a client.Reader that returns one Lease and at most one pod.
type podReader struct {
	leaseReader
	pod *corev1.Pod
}

func (r *podReader) Get(ctx context.Context, key client.ObjectKey, into client.Object,
	options ...client.GetOption) error {
	pod, isPod := into.(*corev1.Pod)
	switch {
	case !isPod:
		return r.leaseReader.Get(ctx, key, into, options...)
	case r.err != nil:
		return r.err
	case r.pod == nil:
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	*pod = *r.pod
	return nil
}

// TestPodUnknownToTheWatchIsReadFromTheAPIServer checks a Lease that names the pod "new". If the
// watch has not delivered this pod, the pod is read from the API server. The broker is down only if
// this read shows that the pod was deleted.
func TestPodUnknownToTheWatchIsReadFromTheAPIServer(t *testing.T) {
	lease := leaseAt("a", time.Now(), 3)
	runIn(lease, "new")
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
		liveness     placement.Liveness
		leaving      bool
	}{
		"known to the watch": {cached: pod("new", false),
			liveness: placement.Up},
		"being deleted": {cached: pod("new", true),
			liveness: placement.Up, leaving: true},
		"watch has the previous pod, being deleted": {cached: pod("old", true),
			live: pod("new", false), liveness: placement.Up},
		"watch has no pod yet": {live: pod("new", false),
			liveness: placement.Up},
		"deleted": {liveness: placement.Down},
		"replaced by another pod": {cached: pod("newest", false),
			live: pod("newest", false), liveness: placement.Down},
		"API server unavailable": {cached: pod("old", true),
			liveErr: errUnavailable, liveness: placement.Up},
		"watch has the previous pod, API server's is being deleted": {cached: pod("old", false),
			live: pod("new", true), liveness: placement.Up, leaving: true},
	} {
		live := &podReader{leaseReader{lease: lease, err: c.liveErr}, c.live}
		tracker := NewTracker(&podReader{leaseReader{lease: lease}, c.cached}, live)
		// The second call uses the result of the first call's read, or comes too early for another read.
		for call := range 2 {
			state, _, err := tracker.State(t.Context(), types.NamespacedName{Name: "main-broker-0"})
			if err != nil || state.Liveness != c.liveness ||
				(call == 0 && state.Leaving != c.leaving) {
				t.Errorf("%s: got %+v, %v; want liveness %d, leaving %t", name, state, err, c.liveness,
					c.leaving)
			}
		}
	}
}
