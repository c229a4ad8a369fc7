// Package memory contains the controller's information about one LogCluster that is kept between
// two reconciliations: observations timed by the operator's clock, and changes that the cache may
// not show yet. If this information were in a status, it would cost writes and would be wrong after
// a restart of the operator (ADR 0042).
package memory

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
)

// Memory is the information about one LogCluster. After a restart of the operator it is the zero
// value.
type Memory struct {
	// Restarted is the UID of the last pod that was deleted for a restart. In the next reconciliation,
	// the cache may still show this pod as ready. After a restart of the operator, Restarted is not
	// needed, because the cache is up to date.
	Restarted types.UID
	// Resizes contains the claims whose file systems must still grow, by broker id. After a restart of
	// the operator, each of them gets another ResizeWait and another restart.
	Resizes map[int32]PendingResize
	// Replacing is true if the StatefulSet was deleted and not yet created again. For a restart of the
	// operator, see apply.RemoveOrphans.
	Replacing bool
	// Stopped contains the time at which a broker exited for the replacement of its volume, by pod
	// UID. After a restart of the operator, this time is measured again from the start.
	Stopped map[types.UID]time.Time

	ready map[int32]readyPod // by broker id
}

// PendingResize is a claim whose file system must still grow.
type PendingResize struct {
	Claim     types.UID
	Requested string
	Pod       types.UID // UID of the pod that had mounted the volume before; "" if there was none
	Since     time.Time // time of the operator's first observation
}

// readyPod identifies a pod and the time at which it became ready.
type readyPod struct {
	uid types.UID
	// ready is the time according to the node's clock. A changed value means that the pod became ready
	// again.
	ready time.Time
	since time.Time // time, by the operator's clock, at which ready was first observed
}

// ObserveReady updates the times at which the pods became ready. For each broker with a ready pod,
// it returns the time, by the operator's clock, at which the pod became ready. The times in a pod's
// conditions come from the node's clock. If this clock were some minutes ahead, every rolling
// update would be delayed by as many minutes. After a restart of the operator, a rolling update
// waits for SettleTime once more.
func (m *Memory) ObserveReady(pods []corev1.Pod, now time.Time) map[int32]time.Time {
	current, since := map[int32]readyPod{}, map[int32]time.Time{}
	for i := range pods {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(pods[i].Name)
		began, ready := facts.ReadyAt(&pods[i])
		if !ok || !ready {
			continue
		}
		pod := m.ready[id]
		if pod.uid != pods[i].UID || !pod.ready.Equal(began) {
			pod = readyPod{uid: pods[i].UID, ready: began, since: now}
		}
		current[id], since[id] = pod, pod.since
	}
	m.ready = current
	return since
}
