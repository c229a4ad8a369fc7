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

// failover is the Topic of testdata/failover.yaml: three copies, of which two must have what is
// acknowledged.
const failover = "failover"

// gapMax is how long a partition may take no writes while one broker goes. It is far above what is
// measured (docs/operations/failures.md): a machine that runs this test may be busy, and a cluster
// that waits for the end of a Lease and more is what it is to find.
const gapMax = 30 * time.Second

// brokersGo has brokers go in every way that Kubernetes knows, under load with acks=all, and then
// reads all that was acknowledged.
func (w *world) brokersGo(t *testing.T) {
	w.waitInSync(t)
	for _, way := range []struct {
		name string
		do   func(t *testing.T, leader string)
	}{
		{"a pod is deleted", func(t *testing.T,
			leader string) {
			w.kubectl(t, "delete", "pod", leader, "--wait=false")
		}},
		{"a broker is killed", func(t *testing.T, leader string) {
			w.kubectl(t, "delete", "pod", leader, "--grace-period=0", "--force", "--wait=false")
		}},
		{"brokers restart one by one", func(t *testing.T, _ string) {
			w.kubectl(t, "patch", "logcluster", logCluster, "--type=merge", "-p",
				`{"spec":{"resources":{"requests":{"cpu":"110m","memory":"256Mi"}}}}`)
			w.waitRolled(t)
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			w.mustAsk(t, "POST", "stream", "topic", failover, "keys", "500", "perSecond", "500")
			w.waitAcknowledged(t, failover, 500)
			way.do(t, w.leaderPod(t))
			w.waitAcknowledged(t, failover, 5000)
			w.waitInSync(t)
			stopped := w.mustAsk(t, "POST", "stop", "topic", failover)
			t.Logf("%s: a partition took no writes for %d ms at most: %s", way.name, stopped.Gap,
				stopped.longest())
			if gap := time.Duration(stopped.Gap) * time.Millisecond; gap > gapMax {
				t.Errorf("writes stood still for %s", gap)
			}
			if kept := w.checkKept(t, failover); kept.Held < kept.Acknowledged {
				t.Errorf("%d records were acknowledged, %d are there", kept.Acknowledged, kept.Held)
			}
		})
	}
}

// leaderPod is the pod of the broker that leads the first partition.
func (w *world) leaderPod(t *testing.T) string {
	t.Helper()
	var partition v1alpha1.Partition
	if err := w.Get(t.Context(), client.ObjectKey{Name: v1alpha1.PartitionName(failover, 0)},
		&partition); err != nil {
		t.Fatal(err)
	}
	if partition.Status.Leader < 0 {
		t.Fatalf("partition %s has no leader: %+v", partition.Name, partition.Status)
	}
	// the pod has the Lease's name
	return v1alpha1.BrokerLeaseName(logCluster, partition.Status.Leader)
}

// waitInSync waits until every replica of the topic is in sync.
func (w *world) waitInSync(t *testing.T) {
	t.Helper()
	until(t, "every replica is in sync", func(ctx context.Context) string {
		var topic v1alpha1.Topic
		if err := w.Get(ctx, client.ObjectKey{Name: failover}, &topic); err != nil {
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

// waitRolled waits until every pod of the brokers is of the latest template, and ready.
func (w *world) waitRolled(t *testing.T) {
	t.Helper()
	until(t, "the brokers have restarted", func(ctx context.Context) string {
		pods, err := w.pods(ctx, brokers)
		if err != nil {
			return err.Error()
		}
		for i := range pods {
			asked := pods[i].Spec.Containers[0].Resources.Requests.Cpu().String()
			if asked != "110m" || len(pods[i].Status.ContainerStatuses) == 0 ||
				!pods[i].Status.ContainerStatuses[0].Ready {
				return fmt.Sprintf("pod %s asks for %s, or is not ready", pods[i].Name, asked)
			}
		}
		return ""
	})
	if _, err := w.ask(t.Context(), "GET", "stats", url.Values{"topic": {failover}}); err != nil {
		t.Fatal(err)
	}
}
