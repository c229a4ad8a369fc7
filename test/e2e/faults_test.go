//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

const (
	brokerCount  = 3
	killInterval = 10 * time.Second // time between the kills of two brokers
)

// faults runs the script FAULTS, which breaks and repairs parts of the cluster; see
// hack/e2e-faults.sh. If FAULTS is unset, it skips the step.
func (e *environment) faults(t *testing.T, args ...string) {
	t.Helper()
	script := os.Getenv("FAULTS")
	if script == "" {
		e.skip(t, "FAULTS is not set: see hack/e2e-faults.sh")
	}
	if _, err := command(context.Background(), "", script, args...); err != nil {
		t.Fatal(err)
	}
}

// underLoad writes to the topic failover with acks=all while the function do breaks a part of the
// cluster, and until all replicas are in sync again. Then it checks that every acknowledged record
// exists, and that each key's records are in order. It returns the times for which partitions were
// unavailable for writes.
func (e *environment) underLoad(t *testing.T, do func(t *testing.T)) stats {
	t.Helper()
	e.waitInSync(t)
	e.stream(t, failover, "keys", "500", "perSecond", "500")
	e.waitAcknowledged(t, failover, 1000)
	do(t)
	e.waitInSync(t)
	e.waitAcknowledged(t, failover, 1000)
	answer := e.mustCall(t, "POST", "stop", "topic", failover)
	e.measured(t, "a partition was unavailable for writes for %d ms at most; by partition: %v",
		answer.Gap, answer.Gaps)
	e.checkAllRecords(t, failover)
	return answer
}

// stream starts a stream to a topic. If the step fails before it stops the stream, the stream is
// stopped after the step. Otherwise it would disturb the next steps, or wait for a deleted topic.
func (e *environment) stream(t *testing.T, topic string, pairs ...string) {
	t.Helper()
	e.mustCall(t, "POST", "stream", append([]string{"topic", topic}, pairs...)...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, _ = e.call(ctx, "POST", "stop", url.Values{"topic": {topic}}) // mostly ended already
	})
}

// checkAllRecords checks a topic that is not compacted: every acknowledged record must exist, and
// each key's records must be in the order in which they were sent.
func (e *environment) checkAllRecords(t *testing.T, topic string) {
	t.Helper()
	answer := e.mustCall(t, "GET", "check", "topic", topic, "all", "1")
	t.Logf("%s: %d records acknowledged, %d exist, %d keys", topic, answer.Acknowledged,
		answer.Held,
		answer.Keys)
}

// successiveFailures stops one broker after the other, every ten seconds, even if the previous
// broker is not yet ready again.
func (e *environment) successiveFailures(t *testing.T) {
	for _, failure := range []struct {
		name   string
		rounds int
		do     func(t *testing.T, pod string)
	}{
		{"delete a pod every ten seconds", 6,
			func(t *testing.T, pod string) { e.kubectl(t, "delete", "pod", pod, "--wait=false") }},
		// Each broker is killed only once. If a container failed twice, Kubernetes would delay its
		// restart, and two brokers would be down at the same time.
		{"kill a broker process every ten seconds", brokerCount, e.killProcess},
	} {
		t.Run(failure.name, func(t *testing.T) {
			e.underLoad(t, func(t *testing.T) {
				for round := range failure.rounds {
					before := e.leads(t, failover)
					e.mustCall(t, "POST", "mark", "topic", failover)
					failure.do(t, brokerPod(int32(round%brokerCount)))
					e.pause(t, killInterval)
					led, others := before.split(e.mustCall(t, "GET", "stats", "topic",
						failover).Gaps, int32(round%brokerCount))
					e.measured(t,
						"round %d, broker %d led %d: unavailable for writes for %d ms; "+
							"partitions of other leaders: %d ms",
						round,
						round%brokerCount,
						before.count(int32(round%brokerCount)),
						led,
						others,
					)
				}
				e.waitReady(t, 1, topics)
			})
		})
	}
}

// killProcess kills a broker's process in its container, like the OOM killer.
func (e *environment) killProcess(t *testing.T, name string) {
	t.Helper()
	var pod corev1.Pod
	until(t, "pod "+name+" running", func(ctx context.Context) string {
		if err := e.Get(ctx, client.ObjectKey{Name: name}, &pod); err != nil {
			return err.Error()
		}
		if len(pod.Status.ContainerStatuses) == 0 ||
			pod.Status.ContainerStatuses[0].State.Running == nil {
			return "its container is not running"
		}
		return ""
	})
	e.faults(t, "kill-container", containerID(pod))
}

// nodesFail stops a kubelet, and then powers off a node. Each lasts longer than a Lease is valid.
func (e *environment) nodesFail(t *testing.T) {
	t.Run("stop a kubelet", func(t *testing.T) {
		gap := e.underLoad(t, func(t *testing.T) {
			node := e.node(t, e.leaderPodApart(t))
			e.faults(t, "kubelet-stop", node)
			e.pause(t, time.Minute)
			t.Logf("pods:\n%s", e.kubectl(t, "get", "pods", "-o", "wide"))
			e.faults(t, "kubelet-start", node)
			e.waitNode(t, node)
		}).Gap
		if gap > 5000 {
			t.Errorf("a partition was unavailable for writes for %d ms, although no broker failed",
				gap)
		}
	})
	t.Run("power off a node", func(t *testing.T) {
		e.underLoad(t, func(t *testing.T) {
			name := e.leaderPodApart(t)
			node := e.node(t, name)
			t.Logf("%s is on node %s, the operators on %v", name, node, e.operatorNodes(t))
			e.mustCall(t, "POST", "mark", "topic", failover)
			e.faults(t, "power-off", node)
			e.pause(t, 45*time.Second)
			e.measured(t, "while the node is off: unavailable for writes for %v ms",
				e.mustCall(t, "GET", "stats", "topic", failover).Gaps)
			t.Logf("pods and partitions:\n%s",
				e.kubectl(t, "get", "pods,logclusters,topics,partitionsets", "-o", "wide"))
			e.mustCall(t, "POST", "mark", "topic", failover)
			e.faults(t, "power-on", node)
			e.waitNode(t, node)
			e.waitReady(t, 1, topics)
		})
	})
}

// apiServerFails restarts the API server. Then it stops the API server, a broker and the operator
// at the same time. No new leaders can be elected until the API server returns.
func (e *environment) apiServerFails(t *testing.T) {
	t.Run("restart the API server", func(t *testing.T) {
		gap := e.underLoad(t, func(t *testing.T) {
			e.stopAPI(t)
			e.faults(t, "apiserver-start")
			e.waitAPI(t)
		}).Gap
		if gap > 5000 {
			t.Errorf("a partition was unavailable for writes for %d ms, although no broker failed",
				gap)
		}
	})
	t.Run("stop the API server, kill a broker and the operator", func(t *testing.T) {
		e.underLoad(t, func(t *testing.T) {
			var pod corev1.Pod
			if err := e.Get(t.Context(), client.ObjectKey{Name: e.leaderPod(t)}, &pod); err != nil {
				t.Fatal(err)
			}
			_, broker, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
			e.kubectl(t, "rollout", "status", "deployment", "--timeout=120s")
			all := e.operators(t)
			if len(all) == 0 {
				t.Fatal("no operators")
			}
			_, operator, _ := strings.Cut(all[0].Status.ContainerStatuses[0].ContainerID,
				"://")
			e.mustCall(t, "POST", "mark", "topic", failover)
			e.stopAPI(t)
			e.pause(t, 5*time.Second)
			e.faults(t, "kill-container",
				// The operator would soon exit by itself, because it cannot renew its Lease.
				operator)
			e.faults(t, "kill-container", broker)
			e.pause(t, 40*time.Second)
			e.faults(t, "apiserver-start")
			began := time.Now()
			e.waitAPI(t)
			e.waitReady(t, 1, topics)
			e.measured(t, "everything Ready %s after the API server started",
				time.Since(began).Round(100*time.Millisecond))
		})
	})
}

// stopAPI kills the API server. If the step fails, stopAPI starts the API server again, because the
// test must be able to log the cluster's state.
func (e *environment) stopAPI(t *testing.T) {
	t.Helper()
	e.faults(t, "apiserver-stop")
	t.Cleanup(func() {
		if t.Failed() {
			e.faults(t, "apiserver-start")
		}
	})
}

// leads contains the id of each partition's leader, by partition.
type leads map[int32]int32

func (e *environment) leads(t *testing.T, topic string) leads {
	t.Helper()
	partitions, err := e.partitions(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	all := leads{}
	for index, p := range partitions {
		all[index] = p.Leader
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

// split returns two maxima of numbers: the maximum over the partitions that a broker leads, and the
// maximum over all other partitions.
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

// brokerPod returns the name of a broker's pod, which is also the name of its Lease.
func brokerPod(id int32) string { return v1alpha1.BrokerLeaseName(logCluster, id) }

// node returns the name of the node that runs a pod.
func (e *environment) node(t *testing.T, pod string) string {
	t.Helper()
	var found corev1.Pod
	if err := e.Get(t.Context(), client.ObjectKey{Name: pod}, &found); err != nil {
		t.Fatal(err)
	}
	return found.Spec.NodeName
}

// leaderPodApart returns the pod of a broker that leads a partition and runs on a different node
// than the client. If possible, this node also runs none of the cluster's DNS servers, because the
// client needs them.
func (e *environment) leaderPodApart(t *testing.T) string {
	t.Helper()
	dns := e.dnsNodes(t)
	second, client := "", e.node(t, "client")
	for id := range int32(brokerCount) {
		switch node := e.node(t, brokerPod(id)); {
		case e.leads(t, failover).count(id) == 0 || node == client:
		case !dns[node]:
			return brokerPod(id)
		default:
			second = brokerPod(id)
		}
	}
	if second == "" {
		e.skip(t, "no broker leads a partition on another node than the client's")
	}
	return second
}

func (e *environment) operatorNodes(t *testing.T) (nodes []string) {
	t.Helper()
	for _, pod := range e.operators(t) {
		nodes = append(nodes, pod.Spec.NodeName)
	}
	return nodes
}

// waitNode waits until a node is ready again.
func (e *environment) waitNode(t *testing.T, name string) {
	t.Helper()
	until(t, "node "+name+" ready", func(ctx context.Context) string {
		var node corev1.Node
		if err := e.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
			return err.Error()
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "not ready"
	})
}

// waitAPI waits until the API server is ready.
func (e *environment) waitAPI(t *testing.T) {
	t.Helper()
	until(t, "API server ready", func(ctx context.Context) string {
		if _, err := e.set.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return fmt.Sprint(err)
		}
		return ""
	})
}

// pause waits for the given time, in which the cluster reacts to a failure.
func (e *environment) pause(t *testing.T, length time.Duration) {
	t.Helper()
	select {
	case <-time.After(length):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
