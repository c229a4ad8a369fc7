//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// volumeLost deletes the claim and the pod of a broker under load. The broker must not start with
// the next, empty volume before the consent is given by the command in condition VolumeLost. Then
// it copies all its replicas, and every acknowledged record is read back.
func (e *environment) volumeLost(t *testing.T) {
	const broker = 1
	name := v1alpha1.BrokerLeaseName("demo", broker)
	before := e.directory(t, name)
	e.underLoad(t, func(t *testing.T) {
		pod := &corev1.Pod{}
		if err := e.Get(t.Context(), client.ObjectKey{Namespace: e.namespace, Name: name},
			pod); err != nil {
			t.Fatal(err)
		}
		e.kubectl(t, "delete", "--wait=false", "pvc", v1alpha1.VolumeClaimName("demo", broker))
		e.kubectl(t, "delete", "--wait=false", "pod", name)
		command := e.waitVolumeLost(t, broker, pod.UID)
		e.expectWaiting(t, broker, before)

		t.Logf("consenting: %s", command)
		e.kubectl(t, strings.Fields(command)[1:]...)
		until(t, "volume replaced", func(ctx context.Context) string {
			condition := e.condition(ctx, v1alpha1.ConditionVolumeLost)
			if condition.Reason != v1alpha1.ReasonVolumesPresent {
				return fmt.Sprintf("%+v", condition)
			}
			return ""
		})
		e.waitInSync(t)
	})
	if after := e.directory(t, name); after == before {
		t.Errorf("the directory id is still %s", after)
	}
	e.checkCompacted(t, "ledger")
	e.checkCompacted(t, "tickets")
}

// directory returns the directory id with which a broker has registered.
func (e *environment) directory(t *testing.T, lease string) string {
	t.Helper()
	return e.kubectl(t, "get", "lease", lease, "-o",
		`jsonpath={.metadata.annotations.heartwood\.dev/directory-id}`)
}

// waitVolumeLost waits until the LogCluster reports the lost volume of a broker whose pod is a new
// one, and returns the command in the message of the condition.
func (e *environment) waitVolumeLost(t *testing.T, broker int32,
	before types.UID) (command string) {
	t.Helper()
	until(t, "VolumeLost", func(ctx context.Context) string {
		condition := e.condition(ctx, v1alpha1.ConditionVolumeLost)
		at := strings.Index(condition.Message, "kubectl annotate ")
		pod := &corev1.Pod{}
		err := e.Get(ctx, client.ObjectKey{Namespace: e.namespace,
			Name: v1alpha1.BrokerLeaseName("demo", broker)}, pod)
		if condition.Reason != v1alpha1.ReasonWaitingForConsent || at < 0 ||
			!strings.HasPrefix(condition.Message, fmt.Sprintf("Broker %d ", broker)) ||
			err != nil || pod.UID == before {
			return fmt.Sprintf("%+v, %v", condition, err)
		}
		command = condition.Message[at:]
		return ""
	})
	return command
}

// expectWaiting expects that a broker neither registers nor becomes ready without consent.
func (e *environment) expectWaiting(t *testing.T, broker int32, directory string) {
	t.Helper()
	name := v1alpha1.BrokerLeaseName("demo", broker)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); e.pause(t,
		time.Second) {
		if now := e.directory(t, name); now != directory {
			t.Fatalf("broker %d has registered with directory %s without consent", broker, now)
		}
		pod := &corev1.Pod{}
		if err := e.Get(t.Context(), client.ObjectKey{Namespace: e.namespace, Name: name},
			pod); err == nil && isReady(pod) {
			t.Fatalf("broker %d is ready without consent", broker)
		}
	}
}
