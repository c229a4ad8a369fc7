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

// brokenImage rolls out an image that does not exist, under load. The rolling update must stop at
// one broker, and condition RollingOut must name this broker. Rolling out another image must end
// the failure.
func (e *environment) brokenImage(t *testing.T) {
	e.underLoad(t, func(t *testing.T) {
		e.patchImage(t, absentImage)
		e.waitRollout(t, v1alpha1.ReasonWaiting, "is not ready")
		until(t, "a pod with the image that does not exist", func(ctx context.Context) string {
			if broken, err := e.withImage(ctx, absentImage); broken == 0 || err != nil {
				return fmt.Sprintf("no pod, %v", err)
			}
			return ""
		})
		for end := time.Now().Add(40 * time.Second); time.Now().Before(end); e.pause(t, time.Second) {
			if broken, err := e.withImage(t.Context(), absentImage); broken != 1 || err != nil {
				t.Fatalf("%d brokers have the image that does not exist, want 1; %v", broken, err)
			}
		}
		e.patchImage(t, e.image)
		e.waitRollout(t, v1alpha1.ReasonComplete, "")
	})
}

// withImage returns the number of broker pods with the given image.
func (e *environment) withImage(ctx context.Context, image string) (number int, err error) {
	pods, err := e.pods(ctx, brokers)
	for i := range pods {
		if pods[i].Spec.Containers[0].Image == image {
			number++
		}
	}
	return number, err
}

func (e *environment) patchImage(t *testing.T, image string) {
	t.Helper()
	e.kubectl(t, "patch", "logcluster", e.cluster, "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"image":%q}}`, image))
}

// waitRollout waits until condition RollingOut has the given reason, and a message that contains
// the given text.
func (e *environment) waitRollout(t *testing.T, reason, message string) {
	t.Helper()
	last := ""
	until(t, "RollingOut to be "+reason, func(ctx context.Context) string {
		var cluster v1alpha1.LogCluster
		if err := e.Get(ctx, client.ObjectKey{Name: e.cluster}, &cluster); err != nil {
			return err.Error() + last
		}
		rolling := meta.FindStatusCondition(cluster.Status.Conditions,
			v1alpha1.ConditionRollingOut)
		if rolling == nil || cluster.Status.ObservedGeneration != cluster.Generation ||
			rolling.Reason != reason || !strings.Contains(rolling.Message, message) {
			last = fmt.Sprintf("; %+v", rolling)
			return last
		}
		return ""
	})
}
