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
	hundred = "hundred" // the Topic in testdata/rolled.yaml with a hundred partitions
	// maxRollGap is the maximum time for which a partition can be unavailable for writes during a
	// rolling update.
	maxRollGap = 3 * time.Second
)

// rolls restarts all brokers, one after the other, while records are written and something else
// fails. At most one broker must be down at a time, and no partition must have fewer in-sync
// replicas than minInSyncReplicas.
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
				// The roll waits until a restarted broker's name resolves to the new address. After an outage
				// of the API server, Kubernetes can update its EndpointSlices minutes later.
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

// waitWrites waits until each partition of topic failover accepts writes again. This must happen
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
// topics failover and hundred. The status must name each broker, and no partition must be
// unavailable for writes for longer than maxRollGap.
func (e *environment) rollHundred(t *testing.T) {
	gap := e.underLoad(t, func(t *testing.T) {
		// Write a record to each partition every 0.3 s. This is the precision with which a gap is
		// measured.
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

// changeImage changes the brokers' image, for example to a later version's image. If the image is
// not given, or the brokers already have it, changeImage restarts the brokers instead, which is the
// same rolling update.
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

// brokerImage returns the first broker's image.
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

// waitRolling waits until the LogCluster reports a rolling update.
func (e *environment) waitRolling(t *testing.T) {
	t.Helper()
	until(t, "RollingOut", func(ctx context.Context) string {
		if rolling := e.condition(ctx, v1alpha1.ConditionRollingOut); rolling.Status != "True" {
			return rolling.Message
		}
		return ""
	})
}

// killOperators deletes all operators' pods without a grace period, and waits for new ones.
func (e *environment) killOperators(t *testing.T) {
	t.Helper()
	e.kubectl(t, "delete", "pods", "-l", "app.kubernetes.io/component=operator", "--grace-period=0",
		"--force")
	e.kubectl(t, "rollout", "status", "deployment", "--timeout=120s")
}

// slowCopy restarts all brokers while a partition moves from brokers 1 and 2 to brokers 0 and 1.
// The copy is so slow that it does not end by itself. Until it ends, the partition needs brokers 1
// and 2. So these brokers wait, and only broker 0 is restarted.
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
		e.patch(t, `{"spec":{"rebalance":null}}`) // removes the limit of the rate
		e.waitRollout(t, v1alpha1.ReasonComplete, "")
		watch.check(t, brokerCount)
	})
}

// drains evicts the brokers from one node after the other. The PodDisruptionBudget must delay each
// eviction until the previous broker's replicas have caught up and clients know its new address.
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
			e.kubectl(t, "uncordon", node) // the broker's volume may be on this node
			e.waitPod(t, brokerPod(id), &before)
		}
		watch.check(t, brokerCount)
	})
}

// brokersWatch observes pods, the status and partitions until the observation ends.
type brokersWatch struct {
	count int32 // number of brokers
	stop  context.CancelFunc
	done  sync.WaitGroup
	// away is the largest set of brokers whose pods were not ready at the same time.
	away    []string
	waiting map[int32]bool   // brokers whose restart was announced in status.brokers
	named   []int32          // brokers named by condition RollingOut while True, in order
	uids    map[string]bool  // UIDs of all pods
	short   map[string]int32 // partitions of topic failover with fewer than two in-sync replicas
}

// watchBrokers begins to observe the brokers.
func (e *environment) watchBrokers(t *testing.T) *brokersWatch { return e.watchAll(t, brokerCount) }

// watchAll is like watchBrokers, for the given number of brokers.
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

// observe makes one observation. A failed request does not count as an observation.
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
		// After an outage of the API server, kube-controller-manager can set condition Ready of all pods
		// to False. So the containers' states are used, which only the kubelet sets.
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

// check ends the observation like end. It also fails unless exactly replaced pods were replaced.
func (w *brokersWatch) check(t *testing.T, replaced int) {
	t.Helper()
	w.end(t)
	if len(w.uids) != int(w.count)+replaced {
		t.Errorf("%d pods were seen, want %d", len(w.uids), int(w.count)+replaced)
	}
}

// end ends the observation. It fails if two brokers were down at the same time, or if a partition
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

// checkNamed fails if condition RollingOut has not named each broker. It also fails if the status
// has not announced the restart of each broker except the first one, whose restart can begin before
// the status is written. The observation must have ended.
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
