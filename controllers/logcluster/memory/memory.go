// Package memory contains what the controller of LogClusters remembers of one LogCluster between
// two reconciliations. It holds what the operator has observed by its own clock, or what the cache
// may not show yet; in a status it would cost writes and be wrong after a restart (ADR 0042).
package memory

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
)

// Memory is what is remembered of one LogCluster. The zero value is that after a restart of the
// operator.
type Memory struct {
	// Restarted is the UID of the last pod that was deleted for a restart. The cache may still
	// contain that pod as a ready one in the next reconciliation. After a restart of the operator
	// the cache is up to date.
	Restarted types.UID
	// Resizes are claims whose file systems are to grow, by broker id. After a restart of the
	// operator they have ResizeWait once more, and one more restart.
	Resizes map[int32]PendingResize
	// Replacing is true if the StatefulSet was deleted and not created again yet. After a restart of
	// the operator see apply.RemoveOrphans.
	Replacing bool
	// Stopped contains, by the UIDs of their pods, since when the brokers have exited that stop for
	// the replacement of their volumes. After a restart of the operator the times begin again.
	Stopped map[types.UID]time.Time

	ready map[int32]readyPod // by broker id
}

// PendingResize is a claim whose file system is still to grow.
type PendingResize struct {
	Claim     types.UID
	Requested string
	Pod       types.UID // of the pod that had mounted the volume before; "" if there was none
	Since     time.Time // time of the operator's first observation
}

// readyPod identifies a pod and the moment at which it became ready.
type readyPod struct {
	uid types.UID
	// time of becoming ready by the node's clock; another value means that the pod became ready
	// again
	ready time.Time
	since time.Time // time of the operator's first observation of ready, by its clock
}

// ObserveReady updates the times at which the pods became ready. It returns, for each broker whose
// pod is ready, the time at which the pod became ready, by the operator's clock. The times in a
// pod's conditions are by its node's clock; a clock that is minutes ahead would delay every rolling
// update by these minutes. After a restart of the operator a rolling update waits for SettleTime
// once more.
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
