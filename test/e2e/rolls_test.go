//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

const (
	hundred = "hundred" // the Topic of testdata/rolled.yaml with a hundred partitions
	// maxRollGap is how long a partition may be unavailable for writes during a rolling update.
	maxRollGap = 3 * time.Second
)

// rolls restarts all brokers, one after the other, while records are written and something else
// fails. At most one broker may be away at a time, and no partition may have fewer in-sync replicas
// than minInSyncReplicas.
func (e *environment) rolls(t *testing.T) {
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/rolled.yaml")
	e.atEnd(t, "delete", "-f", "test/e2e/testdata/rolled.yaml", "--timeout=120s")
	e.waitReady(t, 1, topics+3)
	t.Run("a hundred partitions, and one with a single replica", e.rollHundred)
	for _, roll := range []struct {
		name      string
		meanwhile func(t *testing.T)
	}{
		{"the operator is killed", func(t *testing.T) {
			e.pause(t, 5*time.Second)
			e.killOperators(t)
		}},
		{"the API server is away", func(t *testing.T) {
			e.stopAPI(t)
			e.pause(t, 20*time.Second)
			e.faults(t, "apiserver-start")
			e.waitAPI(t)
			e.waitWrites(t)
		}},
	} {
		t.Run(roll.name, func(t *testing.T) {
			e.underLoad(t, func(t *testing.T) {
				watch := e.watchBrokers(t)
				e.changeImage(t, e.image)
				roll.meanwhile(t)
				// The roll waits until the name of a restarted broker has its new address. After
				// the API server was away, Kubernetes may update its EndpointSlices minutes later.
				e.poll(t, func(ctx context.Context) bool {
					return e.condition(ctx, v1alpha1.ConditionRollingOut).Reason ==
						v1alpha1.ReasonComplete
				})
				e.waitRollout(t, v1alpha1.ReasonComplete, "")
				watch.check(t, brokerCount)
			})
		})
	}
	t.Run("a partition waits for a copy", e.slowCopy)
}

// waitWrites waits until each partition of topic failover accepts writes again, which must be
// within promptly.
func (e *environment) waitWrites(t *testing.T) {
	t.Helper()
	began := time.Now()
	for {
		e.mustCall(t, "POST", "mark", "topic", failover)
		back := time.Since(began)
		e.pause(t, time.Second)
		gap := time.Duration(e.mustCall(t, "GET", "stats", "topic", failover).Gap) * time.Millisecond
		if gap < 2*time.Second {
			e.measured(t, "all partitions accept writes %s after the API server",
				back.Round(100*time.Millisecond))
			return
		}
		if back > promptly {
			t.Fatalf("a partition is unavailable for writes since %s, and the API server is available "+
				"since %s", gap, back)
		}
	}
}

// rollHundred changes the image of all brokers while records are written to all partitions of
// topics failover and hundred. The status must name each broker, and no partition may be
// unavailable for writes for longer than maxRollGap.
func (e *environment) rollHundred(t *testing.T) {
	gap := e.underLoad(t, func(t *testing.T) {
		// A record every 0.3 s to each partition, so that a gap is measured this precisely.
		e.stream(t, hundred, "keys", "500", "perSecond", "300")
		e.waitAcknowledged(t, hundred, 1000)
		watch := e.watchBrokers(t)
		e.changeImage(t, os.Getenv("LATER_IMAGE"))
		e.waitRollout(t, v1alpha1.ReasonComplete, "")
		watch.check(t, brokerCount)
		watch.checkNamed(t)
		e.waitAcknowledged(t, hundred, 1000)
	}).Gap
	stopped := e.mustCall(t, "POST", "stop", "topic", hundred)
	e.measured(t, "%d of a hundred partitions were written to, and unavailable for %d ms at most: %s",
		len(stopped.Gaps), stopped.Gap, stopped.longest())
	if len(stopped.Gaps) != 100 {
		t.Errorf("%d partitions were written to", len(stopped.Gaps))
	}
	if worst := time.Duration(max(gap, stopped.Gap)) * time.Millisecond; worst > maxRollGap {
		t.Errorf("a partition was unavailable for writes for %s", worst)
	}
	e.checkAllRecords(t, hundred)
}

// changeImage changes the image of the brokers, of which one is that of a later version. Without
// one, or if they have the image already, it restarts them, which is the same rolling update.
func (e *environment) changeImage(t *testing.T, image string) {
	t.Helper()
	if image == "" || image == e.brokerImage(t) {
		t.Logf("THE IMAGE IS NOT CHANGED, the brokers are restarted with %s", e.brokerImage(t))
		e.restartAll(t)
		return
	}
	e.patchImage(t, image)
	e.waitRolling(t)
}

// brokerImage returns the image of the first broker.
func (e *environment) brokerImage(t *testing.T) string {
	t.Helper()
	return e.kubectl(t, "get", "pod", brokerPod(0), "-o", "jsonpath={.spec.containers[0].image}")
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

// killOperators deletes the pods of all operators without a grace period, and waits for new ones.
func (e *environment) killOperators(t *testing.T) {
	t.Helper()
	e.kubectl(t, "delete", "pods", "-l", "app.kubernetes.io/component=operator", "--grace-period=0",
		"--force")
	e.kubectl(t, "rollout", "status", "deployment", "--timeout=120s")
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
	count int32 // number of brokers
	stop  context.CancelFunc
	done  sync.WaitGroup
	// away is the largest set of brokers whose pods were not ready at the same time.
	away    []string
	waiting map[int32]bool   // brokers whose restart status.brokers has announced
	named   []int32          // brokers that condition RollingOut has named while it was True, in order
	uids    map[string]bool  // of all pods
	short   map[string]int32 // partitions of topic failover with fewer than two in-sync replicas
}

// watchBrokers begins to observe the brokers.
func (e *environment) watchBrokers(t *testing.T) *brokersWatch { return e.watchAll(t, brokerCount) }

// watchAll is watchBrokers for a number of brokers.
func (e *environment) watchAll(t *testing.T, count int32) *brokersWatch {
	ctx, cancel := context.WithCancel(t.Context())
	w := &brokersWatch{count: count, stop: cancel, waiting: map[int32]bool{},
		uids: map[string]bool{}, short: map[string]int32{}}
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
	if pods, err := e.pods(ctx, brokers); err == nil {
		w.observePods(pods)
	}
	var cluster v1alpha1.LogCluster
	if e.Get(ctx, client.ObjectKey{Name: logCluster}, &cluster) == nil {
		w.observeStatus(cluster.Status)
	}
	if partitions, err := e.partitions(ctx, failover); err == nil {
		for index, p := range partitions {
			if len(p.ISR) < 2 {
				w.short[fmt.Sprint(index)] = int32(len(p.ISR))
			}
		}
	}
}

func (w *brokersWatch) observePods(pods []corev1.Pod) {
	away := map[string]bool{}
	for id := range w.count {
		away[brokerPod(id)] = true
	}
	for i := range pods {
		w.uids[string(pods[i].UID)] = true
		// After an outage of the API server, kube-controller-manager may set condition Ready of all
		// pods to False. Only the kubelet sets the states of their containers.
		ready := slices.ContainsFunc(pods[i].Status.ContainerStatuses,
			func(c corev1.ContainerStatus) bool { return c.Ready })
		if ready && pods[i].DeletionTimestamp == nil {
			delete(away, pods[i].Name)
		}
	}
	if len(away) > len(w.away) {
		w.away = slices.Sorted(maps.Keys(away))
	}
}

func (w *brokersWatch) observeStatus(status v1alpha1.LogClusterStatus) {
	for _, b := range status.Brokers {
		w.waiting[b.ID] = w.waiting[b.ID] || b.RestartReason != ""
	}
	rolling := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRollingOut)
	for id := range w.count {
		if !slices.Contains(w.named, id) && rolling != nil &&
			rolling.Status == metav1.ConditionTrue &&
			strings.Contains(rolling.Message, fmt.Sprintf("Broker %d ", id)) {
			w.named = append(w.named, id)
		}
	}
}

// check ends the observation like end. It also fails if not so many pods were replaced.
func (w *brokersWatch) check(t *testing.T, replaced int) {
	t.Helper()
	w.end(t)
	if len(w.uids) != int(w.count)+replaced {
		t.Errorf("%d pods were seen, want %d", len(w.uids), int(w.count)+replaced)
	}
}

// end ends the observation. It fails if two brokers were away at the same time, or if a partition
// had too few in-sync replicas.
func (w *brokersWatch) end(t *testing.T) {
	t.Helper()
	w.stop()
	w.done.Wait()
	if len(w.away) > 1 {
		t.Errorf("brokers were away at the same time: %s", strings.Join(w.away, ", "))
	}
	if len(w.short) > 0 {
		t.Errorf("partitions had too few in-sync replicas: %v", w.short)
	}
	t.Logf("restarts announced: %v, brokers named: %v", w.waiting, w.named)
}

// checkNamed fails if condition RollingOut has not named each broker, or if the status has not
// announced the restart of each broker but the first: its restart may begin before the status is
// written. The observation must have ended.
func (w *brokersWatch) checkNamed(t *testing.T) {
	t.Helper()
	for id := range w.count {
		if !slices.Contains(w.named, id) {
			t.Errorf("RollingOut has not named broker %d", id)
		} else if !w.waiting[id] && w.named[0] != id {
			t.Errorf("status.brokers has not announced the restart of broker %d", id)
		}
	}
}
