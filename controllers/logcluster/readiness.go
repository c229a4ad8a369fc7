package logcluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
)

// readiness stores the time at which each broker's pod became ready, by the operator's clock. The
// times in a pod's conditions are by its node's clock; a clock that is minutes ahead would delay
// every rolling update by these minutes. After a restart of the operator the stored times are lost,
// and a rolling update waits for SettleTime once more.
type readiness struct {
	pods keyed.Map[map[int32]readyPod] // keys: LogCluster, then broker id
}

// readyPod identifies a pod and the moment at which it became ready.
type readyPod struct {
	uid types.UID
	// time of becoming ready by the node's clock; another value means that the pod became ready
	// again
	at    time.Time
	since time.Time // when the operator first observed at, by the operator's clock
}

// observe updates the stored state of a LogCluster's pods at the time now. It returns, for each
// broker whose pod is ready, the time at which the pod became ready.
func (r *readiness) observe(cluster types.NamespacedName, pods []corev1.Pod,
	now time.Time) map[int32]time.Time {
	before, _ := r.pods.Get(cluster)
	current, since := map[int32]readyPod{}, map[int32]time.Time{}
	for i := range pods {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(pods[i].Name)
		at, ready := facts.ReadyAt(&pods[i])
		if !ok || !ready {
			continue
		}
		pod := before[id]
		if pod.uid != pods[i].UID || !pod.at.Equal(at) {
			pod = readyPod{uid: pods[i].UID, at: at, since: now}
		}
		current[id], since[id] = pod, pod.since
	}
	r.pods.Set(cluster, current)
	return since
}

func (r *readiness) forget(cluster types.NamespacedName) { r.pods.Delete(cluster) }
