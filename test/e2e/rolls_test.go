//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// rolls restarts all brokers, one after the other, while records are written and something else
// fails. At most one broker may be away at a time, and no partition may have fewer in-sync replicas
// than minInSyncReplicas.
func (e *environment) rolls(t *testing.T) {
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/rolled.yaml")
	e.atEnd(t, "delete", "-f", "test/e2e/testdata/rolled.yaml", "--timeout=120s")
	e.waitReady(t, 1, topics+3)
	for _, roll := range []struct {
		name      string
		meanwhile func(t *testing.T)
	}{
		{"a hundred partitions, and one with a single replica", func(*testing.T) {}},
		{"the operator is killed", e.killOperators},
		{"the API server is away", func(t *testing.T) {
			e.stopAPI(t)
			e.pause(t, 20*time.Second)
			e.faults(t, "apiserver-start")
			e.waitAPI(t)
		}},
	} {
		t.Run(roll.name, func(t *testing.T) {
			e.underLoad(t, func(t *testing.T) {
				watch := e.watchBrokers(t)
				e.restartAll(t)
				roll.meanwhile(t)
				e.waitRollout(t, v1alpha1.ReasonComplete, "")
				watch.check(t, brokerCount)
			})
		})
	}
	t.Run("a partition waits for a copy", e.slowCopy)
}

// restartAll requests the restart of all brokers.
func (e *environment) restartAll(t *testing.T) {
	t.Helper()
	e.kubectl(t, "annotate", "logcluster", e.cluster, "--overwrite",
		fmt.Sprintf("%s=%d", v1alpha1.AnnotationRestart, time.Now().UnixNano()))
	e.waitRolling(t)
}

// waitRolling waits until a rolling update is shown.
func (e *environment) waitRolling(t *testing.T) {
	t.Helper()
	until(t, "RollingOut", func(ctx context.Context) string {
		if rolling := e.condition(ctx, v1alpha1.ConditionRollingOut); rolling.Status != "True" {
			return rolling.Message
		}
		return ""
	})
}

// killOperators deletes the pods of all operators without a grace period.
func (e *environment) killOperators(t *testing.T) {
	e.pause(t, 5*time.Second)
	e.kubectl(t, "delete", "pods", "-l", "app.kubernetes.io/component=operator", "--grace-period=0",
		"--force")
}

// slowCopy restarts all brokers while a partition moves from brokers 1 and 2 to brokers 0 and 1, so
// slowly that the copy does not end by itself. Until it ends, the partition needs brokers 1 and 2:
// they wait, and broker 0 is restarted.
func (e *environment) slowCopy(t *testing.T) {
	t.Log(e.kubectl(t, "exec", brokerPod(0), "--", "/heartwood", "bench", "produce", "--topic",
		"slow", "--create=false", "--records", "10000"))
	e.patch(t, `{"spec":{"rebalance":{"rate":"1Ki"}}}`)
	e.underLoad(t, func(t *testing.T) {
		e.kubectl(t, "annotate", "topic", "slow", v1alpha1.AnnotationReassign+"=0=0,1")
		until(t, "copy begun", func(ctx context.Context) string {
			all, err := e.partitions(ctx, "slow")
			if p := all[0]; err != nil || len(p.Replicas) != 3 {
				return fmt.Sprintf("replicas %v, %v", p.Replicas, err)
			}
			return ""
		})
		before, watch := e.podUIDs(t), e.watchBrokers(t)
		e.restartAll(t)
		e.waitRollout(t, v1alpha1.ReasonWaiting, "partition slow/0 has too few in-sync replicas")
		kept := slices.DeleteFunc(e.podUIDs(t),
			func(uid types.UID) bool { return !slices.Contains(before, uid) })
		if len(kept) != brokerCount-1 {
			t.Errorf("%d brokers run in their previous pods, want 2", len(kept))
		}
		e.patch(t, `{"spec":{"rebalance":null}}`) // no limit of the rate any more
		e.waitRollout(t, v1alpha1.ReasonComplete, "")
		watch.check(t, brokerCount)
	})
}

// drains evicts the brokers from one node after the other. The PodDisruptionBudget must delay each
// eviction until the replicas of the last broker have caught up and clients know its new address.
func (e *environment) drains(t *testing.T) {
	e.underLoad(t, func(t *testing.T) {
		watch := e.watchBrokers(t)
		for id := range int32(brokerCount) {
			node := e.node(t, brokerPod(id))
			if other := e.node(t, brokerPod((id+1)%brokerCount)); other == node {
				t.Fatalf("node %s has two brokers, whose volumes cannot leave it", node)
			}
			var before corev1.Pod
			key := client.ObjectKey{Name: brokerPod(id)}
			if err := e.Get(t.Context(), key, &before); err != nil {
				t.Fatal(err)
			}
			e.atEnd(t, "uncordon", node)
			t.Log(e.kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data",
				"--pod-selector="+v1alpha1.LabelCluster+"="+logCluster, "--timeout=300s"))
			e.kubectl(t, "uncordon", node) // the volume of the broker may be on this node
			e.waitPod(t, brokerPod(id), &before)
		}
		watch.check(t, brokerCount)
	})
}

// brokersWatch observes pods, the status and partitions until it is checked.
type brokersWatch struct {
	stop context.CancelFunc
	done sync.WaitGroup
	// away is the largest set of brokers whose pods were not ready at the same time.
	away    []string
	waiting map[int32]bool   // brokers whose restart status.brokers has announced
	uids    map[string]bool  // of all pods
	short   map[string]int32 // partitions of topic failover with fewer than two in-sync replicas
}

// watchBrokers begins to observe the brokers.
func (e *environment) watchBrokers(t *testing.T) *brokersWatch {
	ctx, cancel := context.WithCancel(t.Context())
	w := &brokersWatch{stop: cancel, waiting: map[int32]bool{}, uids: map[string]bool{},
		short: map[string]int32{}}
	w.done.Go(func() {
		for ctx.Err() == nil {
			w.observe(ctx, e)
			select {
			case <-time.After(300 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return w
}

// observe observes once. A failed request is no observation.
func (w *brokersWatch) observe(ctx context.Context, e *environment) {
	pods, err := e.pods(ctx, brokers)
	if err != nil {
		return
	}
	away := map[string]bool{}
	for id := range int32(brokerCount) {
		away[brokerPod(id)] = true
	}
	for i := range pods {
		w.uids[string(pods[i].UID)] = true
		for _, c := range pods[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue &&
				pods[i].DeletionTimestamp == nil {
				delete(away, pods[i].Name)
			}
		}
	}
	if len(away) > len(w.away) {
		w.away = slices.Sorted(maps.Keys(away))
	}
	var cluster v1alpha1.LogCluster
	if e.Get(ctx, client.ObjectKey{Name: logCluster}, &cluster) == nil {
		for _, b := range cluster.Status.Brokers {
			w.waiting[b.ID] = w.waiting[b.ID] || b.RestartReason != ""
		}
	}
	if partitions, err := e.partitions(ctx, failover); err == nil {
		for index, p := range partitions {
			if len(p.ISR) < 2 {
				w.short[fmt.Sprint(index)] = int32(len(p.ISR))
			}
		}
	}
}

// check ends the observation. It fails if two brokers were away at the same time, if a partition
// had too few in-sync replicas, or if not so many pods were replaced.
func (w *brokersWatch) check(t *testing.T, replaced int) {
	t.Helper()
	w.stop()
	w.done.Wait()
	if len(w.away) > 1 {
		t.Errorf("brokers were away at the same time: %s", strings.Join(w.away, ", "))
	}
	if len(w.short) > 0 {
		t.Errorf("partitions had too few in-sync replicas: %v", w.short)
	}
	if len(w.uids) != brokerCount+replaced {
		t.Errorf("%d pods were seen, want %d", len(w.uids), brokerCount+replaced)
	}
	t.Logf("restarts announced: %v", w.waiting)
}
