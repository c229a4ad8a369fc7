//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// uids returns the UIDs of the brokers' pods, by broker.
func (o *operatedCluster) uids(t *testing.T) map[int32]types.UID {
	t.Helper()
	uids := map[int32]types.UID{}
	for id := range int32(3) {
		var pod corev1.Pod
		name := v1alpha1.BrokerLeaseName(operated, id)
		if o.Get(t.Context(), client.ObjectKey{Name: name}, &pod) == nil {
			uids[id] = pod.UID
		}
	}
	return uids
}

// restarts restarts one broker. While the LogCluster is paused, the operator must not restart it.
func (o *operatedCluster) restarts(t *testing.T) {
	before := o.uids(t)
	o.plan(t, true, "pause", "--yes")
	until(t, "condition Applied is Paused", func(context.Context) string {
		applied := meta.FindStatusCondition(o.logCluster(t).Status.Conditions,
			v1alpha1.ConditionApplied)
		if applied == nil || applied.Reason != v1alpha1.ReasonPaused {
			return fmt.Sprintf("%+v", applied)
		}
		return ""
	})
	o.plan(t, false, "pause", "--yes")
	if out, code := o.run(t, "status"); code != 0 || !strings.Contains(out,
		"kubectl heartwood resume") {
		t.Errorf("status of a paused LogCluster: exit code %d: %s", code, out)
	}
	if plan := o.plan(t, true, "restart", "--broker", "1", "--yes"); !strings.Contains(plan,
		"the LogCluster is paused") {
		t.Errorf("plan: %s", plan)
	}
	o.pause(t, killInterval)
	if now := o.uids(t); now[1] != before[1] {
		t.Errorf("broker 1 was restarted although the LogCluster is paused: %v, before %v", now,
			before)
	}
	o.plan(t, true, "resume", "--yes")
	if o.logCluster(t).Paused() {
		t.Error("the LogCluster is paused after resume")
	}
	until(t, "broker 1 restarted", func(context.Context) string {
		if now := o.uids(t)[1]; now == "" || now == before[1] {
			return fmt.Sprintf("pod %q", now)
		}
		return ""
	})
	o.waitRollout(t, v1alpha1.ReasonComplete, "")
	if now := o.uids(t); now[0] != before[0] || now[2] != before[2] {
		t.Errorf("other brokers than broker 1 were restarted: %v, before %v", now, before)
	}
	o.waitSettled(t)
}

// restartsAll requests the restart of all brokers, and waits until it begins. The remaining
// restarts would take a minute, and other steps test them.
func (o *operatedCluster) restartsAll(t *testing.T) {
	before := o.uids(t)
	o.plan(t, true, "restart", "--yes")
	o.waitRolling(t)
	until(t, "a broker restarted", func(context.Context) string {
		for id, uid := range o.uids(t) {
			if uid != before[id] {
				return ""
			}
		}
		return "all have their pods"
	})
}
