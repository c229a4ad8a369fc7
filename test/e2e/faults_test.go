//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

const (
	brokerCount = 3
	turnPause   = 10 * time.Second // between two brokers that are killed in turn
)

// faults runs the script that breaks parts of the cluster and mends them; see hack/e2e-faults.sh.
// Who has none skips the step.
func (w *world) faults(t *testing.T, words ...string) {
	t.Helper()
	script := os.Getenv("FAULTS")
	if script == "" {
		t.Skip("FAULTS names no script that breaks parts of this cluster: see hack/e2e-faults.sh")
	}
	if _, err := command(context.Background(), "", script, words...); err != nil {
		t.Fatal(err)
	}
}

// underLoad writes to the topic failover with acks=all while do breaks something, and until
// everything is in sync again. Then each acknowledged record must be there, and each key's in their
// order. It returns for how long each partition took no writes.
func (w *world) underLoad(t *testing.T, do func(t *testing.T)) stats {
	t.Helper()
	w.waitInSync(t)
	w.mustAsk(t, "POST", "stream", "topic", failover, "keys", "500", "perSecond", "500")
	stopped := false
	defer func() {
		if !stopped { // do has failed, or skipped: the next step has a stream of its own
			_, _ = w.ask(context.Background(), "POST", "stop",
				map[string][]string{"topic": {failover}})
		}
	}()
	w.waitAcknowledged(t, failover, 1000)
	do(t)
	w.waitInSync(t)
	w.waitAcknowledged(t, failover, 1000)
	stopped = true
	answer := w.mustAsk(t, "POST", "stop", "topic", failover)
	t.Logf("MEASURED %s: a partition took no writes for %d ms at most; by partition: %v", t.Name(),
		answer.Gap, answer.Gaps)
	w.checkWhole(t, failover)
	return answer
}

// checkWhole is checkKept for a topic that nothing is cleaned from: no acknowledged record is
// missing, nor out of its key's order.
func (w *world) checkWhole(t *testing.T, topic string) {
	t.Helper()
	answer := w.mustAsk(t, "GET", "check", "topic", topic, "whole", "1")
	t.Logf("%s: %d records acknowledged, %d held, %d keys", topic, answer.Acknowledged, answer.Held,
		answer.Keys)
}

// killedInTurn kills one broker after the other, every ten seconds, also while the one before is
// not back.
func (w *world) killedInTurn(t *testing.T) {
	for _, way := range []struct {
		name  string
		turns int
		do    func(t *testing.T, pod string)
	}{
		{"a pod is deleted every ten seconds", 6,
			func(t *testing.T, pod string) { w.kubectl(t, "delete", "pod", pod, "--wait=false") }},
		// Once each: Kubernetes waits, longer and longer, before it starts a container that ended
		// twice, and two brokers are down then.
		{"a broker's process is killed every ten seconds", brokerCount, w.killProcess},
	} {
		t.Run(way.name, func(t *testing.T) {
			w.underLoad(t, func(t *testing.T) {
				for turn := range way.turns {
					before := w.leads(t, failover)
					w.mustAsk(t, "POST", "mark", "topic", failover)
					way.do(t, brokerPod(int32(turn%brokerCount)))
					w.pause(t, turnPause)
					led, others := before.split(w.mustAsk(t, "GET", "stats", "topic",
						failover).Gaps, int32(turn%brokerCount))
					t.Logf(
						"MEASURED turn %d, broker %d led %d: no writes for %d ms; the partitions that others led: %d ms",
						turn,
						turn%brokerCount,
						before.count(int32(turn%brokerCount)),
						led,
						others,
					)
				}
				w.waitReady(t, 1, topics)
			})
		})
	}
}

// killProcess kills a broker in its container, as the kernel does when memory runs out.
func (w *world) killProcess(t *testing.T, name string) {
	t.Helper()
	var pod corev1.Pod
	until(t, "pod "+name+" runs", func(ctx context.Context) string {
		if err := w.Get(ctx, client.ObjectKey{Name: name}, &pod); err != nil {
			return err.Error()
		}
		if len(pod.Status.ContainerStatuses) == 0 ||
			pod.Status.ContainerStatuses[0].State.Running == nil {
			return "its container does not run"
		}
		return ""
	})
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	w.faults(t, "kill-container", id)
}

// nodesFail ends a kubelet, and then a node with all that runs on it, for longer than a Lease
// lasts.
func (w *world) nodesFail(t *testing.T) {
	t.Run("a kubelet is away", func(t *testing.T) {
		gap := w.underLoad(t, func(t *testing.T) {
			node := w.node(t, w.leaderPod(t))
			w.faults(t, "kubelet-stop", node)
			w.pause(t, time.Minute)
			t.Logf("pods:\n%s", w.kubectl(t, "get", "pods", "-o", "wide"))
			w.faults(t, "kubelet-start", node)
			w.waitNode(t, node)
		}).Gap
		if gap > 5000 {
			t.Errorf("writes stood for %d ms, though no broker went", gap)
		}
	})
	t.Run("a node loses its power", func(t *testing.T) {
		w.underLoad(t, func(t *testing.T) {
			name := w.leaderPodApart(t)
			node := w.node(t, name)
			t.Logf("%s is on node %s, the operators on %v", name, node, w.operatorNodes(t))
			w.mustAsk(t, "POST", "mark", "topic", failover)
			w.faults(t, "power-off", node)
			w.pause(t, 45*time.Second)
			t.Logf("MEASURED while the node is off: no writes for %v ms",
				w.mustAsk(t, "GET", "stats", "topic", failover).Gaps)
			t.Logf("pods, and partitions:\n%s",
				w.kubectl(t, "get", "pods,logclusters,topics,partitions", "-o", "wide"))
			w.mustAsk(t, "POST", "mark", "topic", failover)
			w.faults(t, "power-on", node)
			w.waitNode(t, node)
			w.waitReady(t, 1, topics)
		})
	})
}

// apiServerGoes takes the API server away: alone, and while a broker is killed, which nobody can
// replace then.
func (w *world) apiServerGoes(t *testing.T) {
	t.Run("the API server restarts", func(t *testing.T) {
		gap := w.underLoad(t, func(t *testing.T) {
			w.stopAPI(t)
			w.faults(t, "apiserver-start")
			w.waitAPI(t)
		}).Gap
		if gap > 5000 {
			t.Errorf("writes stood for %d ms, though no broker went", gap)
		}
	})
	t.Run("the API server is away, and a broker and the operator are killed", func(t *testing.T) {
		w.underLoad(t, func(t *testing.T) {
			var pod corev1.Pod
			if err := w.Get(t.Context(), client.ObjectKey{Name: w.leaderPod(t)}, &pod); err != nil {
				t.Fatal(err)
			}
			_, broker, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
			w.kubectl(t, "rollout", "status", "deployment", "--timeout=120s")
			operators, err := w.pods(t.Context(),
				client.MatchingLabels{"app.kubernetes.io/component": "operator"})
			if err != nil || len(operators) == 0 {
				t.Fatalf("%d operators, %v", len(operators), err)
			}
			_, operator, _ := strings.Cut(operators[0].Status.ContainerStatuses[0].ContainerID,
				"://")
			w.mustAsk(t, "POST", "mark", "topic", failover)
			w.stopAPI(t)
			w.pause(t, 5*time.Second)
			w.faults(t, "kill-container", operator) // before it ends by itself, as its Lease does
			w.faults(t, "kill-container", broker)
			w.pause(t, 40*time.Second)
			w.faults(t, "apiserver-start")
			began := time.Now()
			w.waitAPI(t)
			w.waitReady(t, 1, topics)
			t.Logf("MEASURED everything is ready %s after the API server started",
				time.Since(began).Round(100*time.Millisecond))
		})
	})
}

// stopAPI kills the API server. If the step fails, it is started again: nothing else could be
// looked at.
func (w *world) stopAPI(t *testing.T) {
	t.Helper()
	w.faults(t, "apiserver-stop")
	t.Cleanup(func() {
		if t.Failed() {
			w.faults(t, "apiserver-start")
		}
	})
}

// leads says who leads the partitions of a topic.
type leads map[int32]int32 // by partition

func (w *world) leads(t *testing.T, topic string) leads {
	t.Helper()
	var partitions v1alpha1.PartitionList
	if err := w.List(t.Context(), &partitions); err != nil {
		t.Fatal(err)
	}
	all := leads{}
	for i := range partitions.Items {
		if p := &partitions.Items[i]; p.Spec.Topic == topic {
			all[p.Spec.Index] = p.Status.Leader
		}
	}
	return all
}

func (l leads) count(broker int32) (count int) {
	for _, leader := range l {
		if leader == broker {
			count++
		}
	}
	return count
}

// split returns the greatest number of the partitions that a broker leads, and of the others.
func (l leads) split(numbers map[int32]int64, broker int32) (led, others int64) {
	for partition, number := range numbers {
		if l[partition] == broker {
			led = max(led, number)
		} else {
			others = max(others, number)
		}
	}
	return led, others
}

// the pod has the Lease's name
func brokerPod(id int32) string { return v1alpha1.BrokerLeaseName(logCluster, id) }

// node is the node of a pod.
func (w *world) node(t *testing.T, pod string) string {
	t.Helper()
	var found corev1.Pod
	if err := w.Get(t.Context(), client.ObjectKey{Name: pod}, &found); err != nil {
		t.Fatal(err)
	}
	return found.Spec.NodeName
}

// leaderPodApart is a broker that leads something on another node than the client's and, if there
// is one, than those of the cluster's DNS: without that, clients find nobody.
func (w *world) leaderPodApart(t *testing.T) string {
	t.Helper()
	servers, err := w.set.CoreV1().Pods("kube-system").List(t.Context(),
		metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for i := range servers.Items {
		held[servers.Items[i].Spec.NodeName] = true
	}
	second, client := "", w.node(t, "client")
	for id := range int32(brokerCount) {
		switch node := w.node(t, brokerPod(id)); {
		case w.leads(t, failover).count(id) == 0 || node == client:
		case !held[node]:
			return brokerPod(id)
		default:
			second = brokerPod(id)
		}
	}
	if second == "" {
		t.Skip("no broker leads a partition on another node than the client's")
	}
	return second
}

func (w *world) operatorNodes(t *testing.T) (nodes []string) {
	t.Helper()
	pods, err := w.pods(t.Context(),
		client.MatchingLabels{"app.kubernetes.io/component": "operator"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		nodes = append(nodes, pods[i].Spec.NodeName)
	}
	return nodes
}

// waitNode waits until a node is ready again.
func (w *world) waitNode(t *testing.T, name string) {
	t.Helper()
	until(t, "node "+name+" is ready", func(ctx context.Context) string {
		var node corev1.Node
		if err := w.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
			return err.Error()
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "it is not ready"
	})
}

// waitAPI waits until the API server answers.
func (w *world) waitAPI(t *testing.T) {
	t.Helper()
	until(t, "the API server answers", func(ctx context.Context) string {
		if _, err := w.set.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return fmt.Sprint(err)
		}
		return ""
	})
}

// pause lets time pass: what is looked at is what happens in it.
func (w *world) pause(t *testing.T, length time.Duration) {
	t.Helper()
	select {
	case <-time.After(length):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
