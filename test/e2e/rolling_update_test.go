//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// absentImage is the name of an image that does not exist.
const absentImage = "registry.invalid/heartwood:absent"

// brokenImage rolls out an image that does not exist, under load. The rolling update stops at one
// broker, and condition RollingOut names it. The next image mends it.
func (e *environment) brokenImage(t *testing.T) {
	e.waitInSync(t)
	e.mustCall(t, "POST", "stream", "topic", failover, "keys", "500", "perSecond", "500")
	e.waitAcknowledged(t, failover, 500)
	e.patchImage(t, absentImage)
	e.waitRollout(t, v1alpha1.ReasonWaiting, "is not ready")
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		pods, err := e.pods(t.Context(), brokers)
		if err != nil {
			t.Fatal(err)
		}
		broken := 0
		for i := range pods {
			if pods[i].Spec.Containers[0].Image == absentImage {
				broken++
			}
		}
		if broken > 1 {
			t.Fatalf("%d brokers have the image that does not exist", broken)
		}
	}
	e.patchImage(t, e.image)
	e.waitRollout(t, v1alpha1.ReasonComplete, "")
	e.waitInSync(t)
	stopped := e.mustCall(t, "POST", "stop", "topic", failover)
	t.Logf("a partition was unavailable for writes for %d ms at most: %s", stopped.Gap,
		stopped.longest())
	if kept := e.checkCompacted(t, failover); kept.Held < kept.Acknowledged {
		t.Errorf("%d records were acknowledged, %d exist", kept.Acknowledged, kept.Held)
	}
}

func (e *environment) patchImage(t *testing.T, image string) {
	t.Helper()
	e.kubectl(t, "patch", "logcluster", e.cluster, "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"image":%q}}`, image))
}

// waitRollout waits until condition RollingOut has a reason and a message that contains a text.
func (e *environment) waitRollout(t *testing.T, reason, message string) {
	t.Helper()
	until(t, "RollingOut to be "+reason, func(ctx context.Context) string {
		var cluster v1alpha1.LogCluster
		if err := e.Get(ctx, client.ObjectKey{Name: e.cluster}, &cluster); err != nil {
			return err.Error()
		}
		rolling := meta.FindStatusCondition(cluster.Status.Conditions,
			v1alpha1.ConditionRollingOut)
		if rolling == nil || cluster.Status.ObservedGeneration != cluster.Generation ||
			rolling.Reason != reason || !strings.Contains(rolling.Message, message) {
			return fmt.Sprintf("%+v", rolling)
		}
		return ""
	})
}
