//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// failover is the Topic in testdata/failover.yaml, with three replicas and minInSyncReplicas 2.
const failover = "failover"

// maxGap is the maximum time for which a partition can be unavailable for writes after the failure
// of one broker. It is far above the measured values (docs/operate/failures.md), because the
// machine may be busy. So the test detects only failovers that take much longer than the expiry of
// a Lease (6 s).
const maxGap = 30 * time.Second

// brokersFail deletes, kills and restarts broker pods under load with acks=all. After each failure,
// all acknowledged records must exist, and no partition must have been unavailable for longer than
// maxGap.
func (e *environment) brokersFail(t *testing.T) {
	for _, failure := range []struct {
		name string
		do   func(t *testing.T, leader string)
	}{
		{"delete a pod", func(t *testing.T,
			leader string) {
			e.kubectl(t, "delete", "pod", leader, "--wait=false")
		}},
		{"kill a broker", func(t *testing.T, leader string) {
			e.kubectl(t, "delete", "pod", leader, "--grace-period=0", "--force", "--wait=false")
		}},
		{"rolling restart", func(t *testing.T, _ string) {
			e.kubectl(t, "patch", "logcluster", logCluster, "--type=merge", "-p",
				`{"spec":{"resources":{"requests":{"cpu":"110m","memory":"256Mi"}}}}`)
			e.waitRolled(t)
		}},
	} {
		t.Run(failure.name, func(t *testing.T) {
			stopped := e.underLoad(t, func(t *testing.T) {
				failure.do(t, e.leaderPod(t))
				e.waitAcknowledged(t, failover, 5000)
			})
			if gap := time.Duration(stopped.Gap) * time.Millisecond; gap > maxGap {
				t.Errorf("a partition was unavailable for writes for %s: %s", gap,
					stopped.longest())
			}
		})
	}
}

// leaderPod returns the pod of the broker that leads the first partition.
func (e *environment) leaderPod(t *testing.T) string {
	t.Helper()
	partition := e.partition(t, failover, 0)
	if partition.Leader < 0 {
		t.Fatalf("the first partition has no leader: %+v", partition)
	}
	// A broker's pod has the same name as the broker's Lease.
	return v1alpha1.BrokerLeaseName(logCluster, partition.Leader)
}

// waitInSync waits until every replica of the topic is in sync.
func (e *environment) waitInSync(t *testing.T) {
	t.Helper()
	until(t, "all replicas in sync", func(ctx context.Context) string {
		var topic v1alpha1.Topic
		if err := e.Get(ctx, client.ObjectKey{Name: failover}, &topic); err != nil {
			return err.Error()
		}
		replicated := meta.FindStatusCondition(topic.Status.Conditions,
			v1alpha1.ConditionReplicated)
		switch {
		case replicated == nil:
			return "no condition Replicated"
		case replicated.Reason != v1alpha1.ReasonInSync:
			return replicated.Reason + ": " + replicated.Message
		}
		return ""
	})
}

// waitRolled waits until every broker pod has the latest template and is ready.
func (e *environment) waitRolled(t *testing.T) {
	t.Helper()
	until(t, "rolling restart completed", func(ctx context.Context) string {
		pods, err := e.pods(ctx, brokers)
		if err != nil {
			return err.Error()
		}
		for i := range pods {
			request := pods[i].Spec.Containers[0].Resources.Requests.Cpu().String()
			if request != "110m" || len(pods[i].Status.ContainerStatuses) == 0 ||
				!pods[i].Status.ContainerStatuses[0].Ready {
				return fmt.Sprintf("pod %s requests %s CPU, or is not ready", pods[i].Name, request)
			}
		}
		return ""
	})
	e.waitRollout(t, v1alpha1.ReasonComplete, "")
	if _, err := e.call(t.Context(), "GET", "stats", url.Values{"topic": {failover}}); err != nil {
		t.Fatal(err)
	}
}
