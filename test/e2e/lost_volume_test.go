//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// volumeLost deletes a broker's claim and pod under load. The broker must not start with the next,
// empty volume before a user consents with the command in condition VolumeLost. Then it copies all
// its replicas, and every acknowledged record must be readable.
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
		e.waitVolumesPresent(t)
		e.waitInSync(t)
	})
	if after := e.directory(t, name); after == before {
		t.Errorf("the directory id is still %s", after)
	}
	e.checkCompacted(t, "ledger")
	e.checkCompacted(t, "tickets")
}

// nodeDeleted stops the kubelet of a broker's node and deletes the node, under load. The broker's
// process continues to run, without a pod. The broker's volume must not be replaced before a user
// consents with the command in the status. Then the broker copies all its replicas on another node.
// Finally the node returns, and every acknowledged record must be readable.
func (e *environment) nodeDeleted(t *testing.T) {
	id, node := e.brokerAlone(t)
	before, pod := e.directory(t, brokerPod(id)), &corev1.Pod{}
	claim := &corev1.PersistentVolumeClaim{}
	for name, object := range map[string]client.Object{brokerPod(id): pod,
		v1alpha1.VolumeClaimName(logCluster, id): claim} {
		if err := e.Get(t.Context(), client.ObjectKey{Name: name}, object); err != nil {
			t.Fatal(err)
		}
	}
	volume := claim.Spec.VolumeName
	if e.kubectl(t, "get", "pv", volume, "-o", "jsonpath={.spec.nodeAffinity}") == "" {
		e.skip(t, "the volumes of this cluster are not on nodes")
	}
	// For Kubernetes, the returning node is a different node, so Kubernetes may not remove the volume.
	e.atEnd(t, "delete", "pv", volume, "--ignore-not-found", "--wait=false")
	e.underLoad(t, func(t *testing.T) {
		t.Logf("deleting node %s of broker %d", node, id)
		restore := e.deleteNode(t, node)
		command := e.waitVolumeLost(t, id, pod.UID)
		e.checkNodeLoss(t, id, command)
		e.expectWaiting(t, id, before)
		t.Logf("consenting: %s", command)
		e.kubectl(t, strings.Fields(command)[1:]...)
		e.waitVolumesPresent(t)
		e.waitInSync(t)
		restore()
	})
	after := &corev1.PersistentVolumeClaim{}
	if err := e.Get(t.Context(), client.ObjectKeyFromObject(claim), after); err != nil ||
		after.UID == claim.UID || after.Spec.VolumeName == volume {
		t.Errorf("claim %s was not replaced: %v", claim.Name, err)
	}
	if now := e.directory(t, brokerPod(id)); now == before {
		t.Errorf("the directory id is still %s", now)
	}
	e.waitReady(t, 1, topics)
	e.checkCompacted(t, "ledger")
	e.checkCompacted(t, "tickets")
}

// brokerAlone returns a broker and its node. Neither another broker nor the client runs on this
// node. If possible, the node also runs none of the cluster's DNS servers.
func (e *environment) brokerAlone(t *testing.T) (id int32, node string) {
	t.Helper()
	taken, dns := map[string]int{e.node(t, e.client): 1}, e.dnsNodes(t)
	for id := range int32(brokerCount) {
		taken[e.node(t, brokerPod(id))]++
	}
	for other := range int32(brokerCount) {
		found := e.node(t, brokerPod(other))
		if taken[found] == 1 && (node == "" || dns[node]) {
			id, node = other, found
		}
	}
	if node == "" {
		e.skip(t, "no broker has a node without the client and other brokers")
	}
	return id, node
}

// deleteNode stops a node's kubelet and deletes the node. The returned function starts the kubelet,
// which registers the node again, and restores the labels. If the test fails earlier, the function
// is called at the end of the test.
func (e *environment) deleteNode(t *testing.T, name string) (restore func()) {
	t.Helper()
	var node corev1.Node
	if err := e.Get(t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		t.Fatal(err)
	}
	e.faults(t, "kubelet-stop", name)
	started := false
	start := func() {
		if !started {
			started = true
			e.faults(t, "kubelet-start", name)
		}
	}
	t.Cleanup(start)
	e.kubectl(t, "delete", "node", name)
	return func() {
		start()
		e.waitNode(t, name)
		labels := []string{"label", "node", name, "--overwrite"}
		for key, value := range node.Labels {
			labels = append(labels, key+"="+value)
		}
		e.kubectl(t, labels...)
	}
}

// checkNodeLoss checks the condition, the status and the plugin's output for a broker whose node
// was deleted.
func (e *environment) checkNodeLoss(t *testing.T, id int32, command string) {
	t.Helper()
	message := e.condition(t.Context(), v1alpha1.ConditionVolumeLost).Message
	t.Log(message)
	if !strings.Contains(message, "is on a node that does not exist any more") {
		t.Errorf("VolumeLost: %s", message)
	}
	var cluster v1alpha1.LogCluster
	if err := e.Get(t.Context(), client.ObjectKey{Name: e.cluster}, &cluster); err != nil {
		t.Fatal(err)
	}
	if lost := cluster.Status.LostVolumes; len(lost) != 1 || lost[0].Broker != id ||
		lost[0].Cause != v1alpha1.LostNodeDeleted || lost[0].Replacing {
		t.Errorf("status.lostVolumes is %+v", lost)
	}
	p := e.linkPlugin(t, os.Getenv("KUBECONFIG"))
	if out, code := p.run(t, "", "status", "-n", e.namespace, "--cluster",
		e.cluster); code != 3 || !strings.Contains(out, command) {
		t.Errorf("status without the command %q: exit code %d\n%s", command, code, out)
	}
}

// waitVolumesPresent waits until no volume is lost.
func (e *environment) waitVolumesPresent(t *testing.T) {
	t.Helper()
	until(t, "volume replaced", func(ctx context.Context) string {
		condition := e.condition(ctx, v1alpha1.ConditionVolumeLost)
		if condition.Reason != v1alpha1.ReasonVolumesPresent {
			return fmt.Sprintf("%+v", condition)
		}
		return ""
	})
}

// directory returns the directory id with which a broker has registered.
func (e *environment) directory(t *testing.T, lease string) string {
	t.Helper()
	var found coordinationv1.Lease
	if err := e.Get(t.Context(), client.ObjectKey{Name: lease}, &found); err != nil {
		t.Fatal(err)
	}
	return v1alpha1.ReadRegistration(&found).Directory
}

// waitVolumeLost waits until the broker has a new pod and the LogCluster reports the broker's
// volume as lost. It returns the command in the condition's message.
func (e *environment) waitVolumeLost(t *testing.T, broker int32,
	before types.UID) (command string) {
	t.Helper()
	until(t, "VolumeLost", func(ctx context.Context) string {
		condition := e.condition(ctx, v1alpha1.ConditionVolumeLost)
		index := strings.Index(condition.Message, "kubectl annotate ")
		pod := &corev1.Pod{}
		err := e.Get(ctx, client.ObjectKey{Namespace: e.namespace,
			Name: v1alpha1.BrokerLeaseName("demo", broker)}, pod)
		if condition.Reason != v1alpha1.ReasonWaitingForConsent || index < 0 {
			return fmt.Sprintf("%+v, want a command for the consent", condition)
		}
		if !strings.HasPrefix(condition.Message, fmt.Sprintf("Broker %d ", broker)) {
			return fmt.Sprintf("%+v, want broker %d", condition, broker)
		}
		if err != nil || pod.UID == before {
			return fmt.Sprintf("pod %s, error %v, want another pod than %s", pod.UID, err, before)
		}
		command = condition.Message[index:]
		return ""
	})
	return command
}

// expectWaiting checks that, without consent, a broker neither registers nor becomes ready.
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
