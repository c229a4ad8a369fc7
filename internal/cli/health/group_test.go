package health

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// threeBrokers returns a LogCluster with three brokers, of which the given ones are down.
func threeBrokers(down ...int32) *v1alpha1.LogCluster {
	c := healthy(condition("RollingOut", "True", "Stuck", ""),
		condition("ListenersReady", "False", "AddressPending", ""))
	c.Spec.Brokers = 3
	c.Status.Conditions[0] = condition("Ready", "False", "BrokersNotReady", "")
	for id := range int32(3) {
		c.Status.Brokers = append(c.Status.Brokers, v1alpha1.BrokerStatus{ID: id, Ready: true})
	}
	for _, id := range down {
		c.Status.Brokers[id].Ready = false
	}
	return c
}

func behind(partition int32, reason string, brokers ...int32) v1alpha1.PartitionProblem {
	return v1alpha1.PartitionProblem{Partition: partition, Reason: reason, Brokers: brokers}
}

// TestOneBrokerThatIsDownIsOneFinding checks that the consequences of a broker that is down are
// part of the finding that explains it. Consequences for other brokers, and findings that need an
// action of their own, must not be part of it.
func TestOneBrokerThatIsDownIsOneFinding(t *testing.T) {
	crashed := corev1.Pod{}
	crashed.Name = "main-broker-1"
	crashed.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "broker",
		State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	pods := []corev1.Pod{crashed}
	for _, name := range []string{"main-broker-0", "main-broker-2"} {
		pod := brokerPod("True", time.Hour)
		pod.Name = name
		pods = append(pods, pod)
	}
	problems := topic([]v1alpha1.PartitionProblem{behind(0, "UnderReplicated", 1),
		behind(1, "UnderReplicated", 1), behind(2, "UnderReplicated", 1),
		behind(3, "UnderReplicated", 1), behind(4, "UnderReplicated", 2)},
		condition("Replicated", "False", "UnderReplicated", ""))
	offline := topic([]v1alpha1.PartitionProblem{behind(0, "LeaderOffline", 1)},
		condition("Ready", "False", "PartitionsNotReady", ""))
	consent := topic([]v1alpha1.PartitionProblem{{Partition: 0, Reason: "LeaderOffline",
		Brokers: []int32{1}, Consent: "d1"}}, condition("Ready", "False", "PartitionsNotReady", ""))
	for name, c := range map[string]struct {
		in   Input
		want []string
	}{
		"its pod says why": {Input{Cluster: threeBrokers(1), Pods: pods, Topics: problems}, []string{
			"warning AddressPending: ",
			"warning CrashLoopBackOff: BrokersNotReady (LogCluster main), Stuck (LogCluster main), " +
				"UnderReplicated (Partition tickets/0, Partition tickets/1, Partition tickets/2, 1 more)",
			"warning UnderReplicated: "}},
		"no pod says why": {Input{Cluster: threeBrokers(1), Topics: offline}, []string{
			"critical BrokersNotReady: Stuck (LogCluster main), LeaderOffline (Partition tickets/0)",
			"warning AddressPending: "}},
		"with an action": {Input{Cluster: threeBrokers(1), Topics: consent}, []string{
			"critical LeaderOffline: ", "warning BrokersNotReady: Stuck (LogCluster main)",
			"warning AddressPending: "}},
		"all are down": {Input{Cluster: threeBrokers(0, 1, 2), Topics: topic(nil,
			condition("Ready", "False", "BootstrapPending", ""))}, []string{
			"critical BrokersNotReady: Stuck (LogCluster main), AddressPending (LogCluster main), " +
				"BootstrapPending (Topic tickets)"}},
	} {
		var got []string
		for _, f := range Findings(c.in) {
			got = append(got, string(f.Severity)+" "+f.Reason+": "+f.Caused())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestEveryWaitHasItsRemedy checks the advice for every reason why a container does not run. It
// must not refer to an earlier log if the container has never run.
func TestEveryWaitHasItsRemedy(t *testing.T) {
	for reason, want := range map[string]string{
		"ErrImagePull":               "kubectl edit logcluster main -n here",
		"InvalidImageName":           "kubectl edit logcluster main -n here",
		"CreateContainerConfigError": "kubectl describe pod main-broker-1 -n here",
		"RunContainerError":          "kubectl describe pod main-broker-1 -n here",
		"ContainerStatusUnknown":     "kubectl describe pod main-broker-1 -n here",
		"CrashLoopBackOff":           "kubectl logs --previous main-broker-1 -c broker -n here",
		"OOMKilled":                  "kubectl edit logcluster main -n here",
	} {
		status := corev1.ContainerStatus{Name: "broker"}
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: "because."}
		if reason == outOfMemory {
			status.State.Waiting.Reason = "CrashLoopBackOff"
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				Reason: outOfMemory}
		}
		pod := corev1.Pod{}
		pod.Name, pod.Status.ContainerStatuses = "main-broker-1", []corev1.ContainerStatus{status}
		found := Pods(Input{Cluster: healthy(), Pods: []corev1.Pod{pod}, Now: now})
		if len(found) != 1 || found[0].Reason != reason {
			t.Errorf("found %+v, want %s", found, reason)
			continue
		}
		if found[0].Next != want {
			t.Errorf("%s: next %q, want %q", reason, found[0].Next, want)
		}
		if !strings.HasPrefix(found[0].Message, "because.") {
			t.Errorf("%s: message %q, want that of the kubelet first", reason, found[0].Message)
		}
	}
}
