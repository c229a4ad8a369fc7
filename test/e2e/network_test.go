//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers"
)

const (
	// cutFor is the time for which a part of the network is interrupted. It is longer than a Lease is
	// valid, and longer than a leader waits for a follower (lagMax).
	cutFor = 25 * time.Second
	// promptly is the time limit after a failure that the other brokers detect. Within this time,
	// other brokers must lead all partitions, and writes to other leaders' partitions must continue.
	promptly = 10 * time.Second
	// hungLimit is the time within which the kubelet must restart a hung broker. It is the sum of 30 s
	// until the liveness probe has failed three times, up to 10 s until it begins to fail, 5 s until
	// SIGKILL, and up to 20 s of back-off for a container that has already exited.
	hungLimit = 70 * time.Second
	// clientTimeout is half of the request timeout of a client that must detect a silent broker.
	// clientDial is this client's connection timeout. franz-go connects twice for each of the five
	// requests in flight before it asks another broker for the leaders, so ten times clientDial must
	// be shorter than promptly (docs/operate/failures.md, Client timeouts).
	clientTimeout, clientDial = "1s", "200ms"
)

// networkFailure is an interruption that affects one broker.
type networkFailure struct {
	name string
	// cut interrupts the network, or stops a process.
	cut func(t *testing.T, v victim)
	// isolated is true if the operator must mark the broker as isolated.
	isolated bool
	// answers is true if the broker's clients receive answers from it. Otherwise a client waits for
	// its own timeouts before it writes to the new leader. By default these are 20 s, so the client
	// uses clientTimeout and clientDial.
	answers bool
	// stops is true if the broker's process is stopped.
	stops bool
}

// limit returns the time for which the partitions of an isolated broker may be unavailable. The
// kernel accepts connections to a stopped process. franz-go has five requests in flight to this
// process. It sends each of them again, one after the other, before it asks another broker for the
// leader.
func (f *networkFailure) limit() time.Duration {
	if f.stops {
		return 30 * time.Second
	}
	return promptly
}

// victim is the broker that a failure affects. It runs on a different node than the client, all
// other brokers and the active operator.
type victim struct {
	id    int32
	pod   corev1.Pod
	peers []string // addresses of the other brokers
	// others contains the addresses of all pods on other nodes: brokers, operators and the client.
	others []string
	api    string // address of the API server
}

// networkFails interrupts parts of the network, and stops a process, under load. After each
// failure, all acknowledged records must exist.
func (e *environment) networkFails(t *testing.T) {
	both := func(t *testing.T, a string, others []string) {
		for _, b := range others {
			e.faults(t, "drop", a, b)
			e.faults(t, "drop", b, a)
		}
	}
	for _, failure := range []networkFailure{
		{"a broker is cut off from the other brokers", func(t *testing.T, v victim) {
			both(t, v.pod.Status.PodIP, v.peers)
		}, true, true, false},
		{"a broker receives nothing from the other brokers", func(t *testing.T, v victim) {
			for _, peer := range v.peers {
				e.faults(t, "drop", peer, v.pod.Status.PodIP)
			}
		}, true, true, false},
		{"the other brokers receive nothing from a broker", func(t *testing.T, v victim) {
			for _, peer := range v.peers {
				e.faults(t, "drop", v.pod.Status.PodIP, peer)
			}
		}, true, true, false},
		{"a broker is cut off from the other brokers and the API server",
			func(t *testing.T, v victim) {
				both(t, v.pod.Status.PodIP, append(v.peers, v.api))
			}, true, false, false},
		{"a zone is cut off", func(t *testing.T, v victim) {
			both(t, v.pod.Status.PodIP, append(v.others, v.api))
		}, true, false, false},
		{"a broker process stops (SIGSTOP)", func(t *testing.T, v victim) {
			e.faults(t, "pause-container", containerID(v.pod))
			t.Cleanup(func() { e.faults(t, "resume-container", containerID(v.pod)) })
		}, true, false, true},
		{"the connection between two brokers breaks", func(t *testing.T, v victim) {
			both(t, v.pod.Status.PodIP, v.peers[:1])
		}, false, false, false},
		{"a broker is cut off from the API server", func(t *testing.T, v victim) {
			both(t, v.pod.Status.PodIP, []string{v.api})
		}, false, false, false},
	} {
		t.Run(failure.name, func(t *testing.T) {
			if failure.isolated && !failure.answers {
				e.mustCall(t, "POST", "reopen", "timeout", clientTimeout,
					"dial", clientDial)
				defer e.mustCall(t, "POST", "reopen")
			}
			e.underLoad(t, func(t *testing.T) { e.networkFailure(t, failure) })
		})
	}
	t.Run("a broker process hangs until the kubelet restarts it", func(t *testing.T) {
		e.underLoad(t, e.hungBrokerRestarts)
	})
}

// hungBrokerRestarts stops a broker process permanently. The kubelet must kill and restart it,
// because its liveness probe fails for 30 s and SIGTERM has no effect.
func (e *environment) hungBrokerRestarts(t *testing.T) {
	v := e.victim(t)
	began := time.Now()
	e.faults(t, "pause-container", containerID(v.pod))
	t.Cleanup(func() { e.faults(t, "resume-container", containerID(v.pod)) })
	until(t, "the hung broker restarted", func(ctx context.Context) string {
		var now corev1.Pod
		if err := e.Get(ctx, client.ObjectKeyFromObject(&v.pod), &now); err != nil {
			return err.Error()
		}
		if status := now.Status.ContainerStatuses[0]; status.State.Running == nil ||
			status.RestartCount == v.pod.Status.ContainerStatuses[0].RestartCount {
			return fmt.Sprintf("%d restarts, state %+v", status.RestartCount, status.State)
		}
		return ""
	})
	if after := time.Since(began); after > hungLimit {
		t.Errorf("the kubelet restarted a hung broker after %s, want %s", after, hungLimit)
	}
	e.waitReady(t, 1, topics)
}

// networkFailure interrupts the network for cutFor. It reports the times for which partitions were
// unavailable during and after the interruption.
func (e *environment) networkFailure(t *testing.T, failure networkFailure) {
	v := e.victim(t)
	before := e.leads(t, failover)
	t.Cleanup(func() { e.faults(t, "heal") })
	e.mustCall(t, "POST", "mark", "topic", failover)
	began := time.Now()
	failure.cut(t, v)
	marked, replaced := e.observe(t, v, began)
	answer := e.mustCall(t, "GET", "stats", "topic", failover)
	led, others := before.split(answer.Gaps, v.id)
	e.measured(t, "broker %d led %d of %d partitions: unavailable for writes for %d ms; partitions "+
		"of other leaders: %d ms; isolated after %s; other leaders after %s; %s", v.id,
		before.count(v.id), len(before), led, others, marked, replaced, answer.longest())
	if (marked > 0) != failure.isolated {
		t.Errorf("broker %d was marked as isolated after %s (0s: never), want a mark: %t", v.id, marked,
			failure.isolated)
	}
	if failure.isolated && (replaced == 0 || replaced > promptly) {
		t.Errorf("other brokers led all partitions after %s (0s: never), want %s", replaced, promptly)
	}
	if gap := time.Duration(others) * time.Millisecond; failure.isolated && gap > promptly {
		t.Errorf("a partition of another leader was unavailable for writes for %s", gap)
	}
	if gap := time.Duration(led) * time.Millisecond; failure.isolated && gap > failure.limit() {
		t.Errorf("a partition was unavailable for writes for %s, want %s", gap, failure.limit())
	}
	e.mustCall(t, "POST", "mark", "topic", failover)
	e.faults(t, "heal")
	if failure.stops {
		e.faults(t, "resume-container", containerID(v.pod))
	}
	e.waitInSync(t)
	e.waitReady(t, 1, topics)
	e.measured(t, "after the failure: %s",
		e.mustCall(t, "GET", "stats", "topic", failover).longest())
}

// observe waits for cutFor. It returns two times since began: when the operator marked the broker
// as isolated, and when the broker led no partition any more; 0 if this did not happen.
func (e *environment) observe(t *testing.T, v victim, began time.Time) (marked,
	replaced time.Duration) {
	t.Helper()
	for time.Since(began) < cutFor {
		e.pause(t, 200*time.Millisecond)
		var lease coordinationv1.Lease
		if err := e.Get(t.Context(), client.ObjectKey{Name: v.pod.Name}, &lease); err != nil {
			t.Fatal(err)
		}
		after := time.Since(began).Round(100 * time.Millisecond)
		epoch := strconv.Itoa(int(*lease.Spec.LeaseTransitions))
		if marked == 0 && lease.Annotations[v1alpha1.AnnotationIsolated] == epoch {
			marked = after
		}
		if replaced == 0 && e.leads(t, failover).count(v.id) == 0 {
			replaced = after
		}
	}
	return marked, replaced
}

// victim waits for a broker that leads a partition and runs on a different node than the client and
// the active operator, and returns it. It prefers a node without DNS servers.
func (e *environment) victim(t *testing.T) (found victim) {
	t.Helper()
	dns := e.dnsNodes(t)
	until(t, "a broker on another node than the client's and the operator's leads",
		func(context.Context) string {
			all := e.victims(t)
			if len(all) == 0 {
				e.skip(t, "no broker is on another node than the client and the operator")
			}
			leads := e.leads(t, failover)
			all = slices.DeleteFunc(all, func(v victim) bool { return leads.count(v.id) == 0 })
			if len(all) == 0 {
				return fmt.Sprintf("the leaders are %v", leads)
			}
			slices.SortStableFunc(all, func(a, b victim) int {
				return strings.Compare(strconv.FormatBool(dns[a.pod.Spec.NodeName]),
					strconv.FormatBool(dns[b.pod.Spec.NodeName]))
			})
			found = all[0]
			return ""
		})
	return found
}

// victims returns the brokers that run on different nodes than the client and the active operator.
func (e *environment) victims(t *testing.T) (all []victim) {
	t.Helper()
	var pods corev1.PodList
	if err := e.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	operator, avoided := e.activeOperator(t), map[string]bool{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Name == operator || p.Name == "client" {
			avoided[p.Spec.NodeName] = true
		}
	}
	for id := range int32(brokerCount) {
		index := slices.IndexFunc(pods.Items,
			func(p corev1.Pod) bool { return p.Name == brokerPod(id) })
		if index < 0 || avoided[pods.Items[index].Spec.NodeName] {
			continue
		}
		v := victim{id: id, pod: pods.Items[index], api: e.apiAddress(t)}
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.Spec.NodeName == v.pod.Spec.NodeName || p.Status.PodIP == "" {
				continue
			}
			v.others = append(v.others, p.Status.PodIP)
			if p.Labels["app.kubernetes.io/component"] == "broker" {
				v.peers = append(v.peers, p.Status.PodIP)
			}
		}
		all = append(all, v)
	}
	return all
}

// activeOperator returns the name of the pod that holds the operators' Lease.
func (e *environment) activeOperator(t *testing.T) string {
	t.Helper()
	var lease coordinationv1.Lease
	if err := e.Get(t.Context(), client.ObjectKey{Name: controllers.OperatorLease},
		&lease); err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return name
}

// dnsNodes returns the nodes on which DNS servers run.
func (e *environment) dnsNodes(t *testing.T) map[string]bool {
	t.Helper()
	servers, err := e.set.CoreV1().Pods("kube-system").List(t.Context(),
		metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]bool{}
	for i := range servers.Items {
		nodes[servers.Items[i].Spec.NodeName] = true
	}
	return nodes
}

// apiAddress returns the address at which pods reach the API server.
func (e *environment) apiAddress(t *testing.T) string {
	t.Helper()
	service, err := e.set.CoreV1().Services("default").Get(context.WithoutCancel(t.Context()),
		"kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(fmt.Errorf("get the Service of the API server: %w", err))
	}
	return service.Spec.ClusterIP
}

// containerID returns the id of a pod's first container.
func containerID(pod corev1.Pod) string {
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}
