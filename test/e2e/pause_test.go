//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// paused pauses the LogCluster, and then replaces its CAs, stops the API server, and kills a
// broker. Certificates must be renewed and leaders elected. A change of the pod template must wait
// until the pause ends.
func (e *changingCluster) paused(t *testing.T) {
	here := e.of(changing)
	secret := e.userSecret(t, "steady")
	bundle := &current{}
	bundle.set(slices.Clone(secret["ca.crt"]))
	seeds := e.endpoints(t, "tls")
	pods, peerCA := e.podUIDs(t), e.peerCAs(t)
	load := e.startLoad(t, seeds, as(secret, bundle.get)...)
	e.kubectl(t, "annotate", "logcluster", changing, v1alpha1.AnnotationPaused+"=true")
	e.kubectl(t, "annotate", "logcluster", changing, "--overwrite",
		v1alpha1.AnnotationReplaceCA+"=2", v1alpha1.AnnotationReplaceCAOverlap+"=60s")
	here.patch(t, `{"spec":{"resources":{"requests":{"cpu":"60m","memory":"64Mi"}}}}`)
	e.stopAPI(t)
	e.pause(t, 15*time.Second)
	e.faults(t, "apiserver-start")
	e.waitAPI(t)
	until(t, "certificates of the new CAs", func(ctx context.Context) string {
		bundle.set(e.userSecret(t, "steady")["ca.crt"])
		if bytes.Equal(bundle.get(), secret["ca.crt"]) {
			return "the user's Secret has no new CA"
		}
		return e.newPeerLeaves(ctx, peerCA)
	})
	e.killLeader(t)
	if now := e.podUIDs(t); !slices.Equal(pods, now) {
		t.Errorf("pods were replaced during the pause: %v, before %v", now, pods)
	}
	e.kubectl(t, "wait", "logcluster", changing, "--timeout=30s",
		"--for=jsonpath={.status.conditions[?(@.type=='Applied')].reason}="+v1alpha1.ReasonPaused)
	e.kubectl(t, "annotate", "logcluster", changing, v1alpha1.AnnotationPaused+"-")
	e.waitChanging(t, 2)
	here.waitRollout(t, v1alpha1.ReasonComplete, "")
	if now := e.podUIDs(t); slices.ContainsFunc(now, func(uid types.UID) bool {
		return slices.Contains(pods, uid)
	}) {
		t.Errorf("pods were not replaced after the pause: %v, before %v", now, pods)
	}
	load.stop(t)
	load.verify(t, seeds, as(secret, bundle.get)...)
}

// killLeader kills the process of a partition's leader, and waits until another broker leads.
func (e *changingCluster) killLeader(t *testing.T) {
	t.Helper()
	leader := e.leads(t, "loaded")[0]
	if leader < 0 {
		t.Fatal("the partition has no leader")
	}
	e.killProcess(t, v1alpha1.BrokerLeaseName(changing, leader))
	until(t, "another leader", func(ctx context.Context) string {
		all, err := e.partitions(ctx, "loaded")
		if p := all[0]; err != nil || p.Leader < 0 || p.Leader == leader {
			return fmt.Sprintf("leader %d, %v", p.Leader, err)
		}
		return ""
	})
}
