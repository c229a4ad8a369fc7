//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// filling is the topic that fills a volume.
const filling = "filling"

// fillingSize is the size of the file system that becomes full.
const fillingSize = "200M"

// volumesGrow raises spec.storage.size under load, and kills the operators meanwhile. If the
// StorageClass does not allow expansion, the volumes must keep their size, and the LogCluster must
// report this. In this case, the step is skipped at its end.
func (e *environment) volumesGrow(t *testing.T) {
	reason := ""
	e.underLoad(t, func(t *testing.T) { reason = e.growVolumes(t) })
	want := "2Gi"
	if reason == v1alpha1.ReasonClassCannotExpand {
		want = "1Gi"
	}
	for _, claim := range e.claims(t) {
		if got := claim.Status.Capacity.Storage().String(); got != want {
			t.Errorf("claim %s has %s, want %s", claim.Name, got, want)
		}
	}
	if reason == v1alpha1.ReasonClassCannotExpand {
		t.Skip("SKIPPED: NO VOLUME GREW, BECAUSE THE STORAGE CLASS OF THIS CLUSTER CANNOT EXPAND. " +
			"envtest covers the growth; run this step on a cluster whose default class can.")
	}
}

// growVolumes raises spec.storage.size, and returns the final reason of condition StorageResized.
// The StatefulSet must be replaced without its pods, and no broker must fail.
func (e *environment) growVolumes(t *testing.T) (reason string) {
	t.Helper()
	pods, before, watch := e.podUIDs(t), e.statefulSet(t), e.watchBrokers(t)
	e.patch(t, `{"spec":{"storage":{"size":"2Gi"}}}`)
	e.killOperators(t)
	until(t, "StatefulSet replaced", func(ctx context.Context) string {
		after := &appsv1.StatefulSet{}
		if err := e.Get(ctx, client.ObjectKeyFromObject(before), after); err != nil {
			return err.Error()
		}
		size := after.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage()
		if after.UID == before.UID || size.String() != "2Gi" || after.Status.ReadyReplicas != 3 {
			return fmt.Sprintf("UID %s, %s, %d ready", after.UID, size, after.Status.ReadyReplicas)
		}
		return ""
	})
	e.waitRollout(t, v1alpha1.ReasonComplete, "")
	until(t, "StorageResized decided", func(ctx context.Context) string {
		condition := e.condition(ctx, v1alpha1.ConditionStorageResized)
		if reason = condition.Reason; reason != v1alpha1.ReasonResized &&
			reason != v1alpha1.ReasonClassCannotExpand {
			return fmt.Sprintf("%+v", condition)
		}
		t.Logf("StorageResized: %s: %s", reason, condition.Message)
		return ""
	})
	if after := e.podUIDs(t); !slices.Equal(pods, after) {
		t.Errorf("the pods were %v and are %v", pods, after)
	}
	watch.check(t, 0)
	return reason
}

// volumesReplaced moves the brokers to volumes of another StorageClass under load. One of these
// volumes is a small file system. volumesReplaced fills it, waits until its broker recovers, and
// moves the brokers back. When the first broker has moved back, it kills the operators.
func (e *environment) volumesReplaced(t *testing.T) {
	first := *e.claims(t)[0].Spec.StorageClassName
	class := e.localVolumes(t)
	e.waitInSync(t)
	uids := e.volumes(t)
	e.underLoad(t, func(t *testing.T) { e.replaceVolumes(t, class, func(*testing.T) {}) })
	for _, uid := range e.volumes(t) {
		if slices.Contains(uids, uid) {
			t.Errorf("claim %s was not replaced", uid)
		}
	}
	t.Run("a volume fills", e.fill)
	e.underLoad(t, func(t *testing.T) { e.replaceVolumes(t, first, e.killOperators) })
	e.checkCompacted(t, "ledger")
	e.checkCompacted(t, "tickets")
}

// replaceVolumes changes the StorageClass, and waits until each broker has a volume of this class.
// It calls midway when one broker has such a volume. At most one broker must be down at any time.
func (e *environment) replaceVolumes(t *testing.T, class string, midway func(t *testing.T)) {
	t.Helper()
	watch := e.watchBrokers(t)
	e.patch(t, fmt.Sprintf(`{"spec":{"storage":{"className":%q}}}`, class))
	last, once := "", sync.Once{}
	for range 2 { // two deadlines, because each broker settles for 30 s
		done := e.poll(t, func(ctx context.Context) bool {
			rolling := e.condition(ctx, v1alpha1.ConditionRollingOut)
			if rolling.Message != last {
				last = rolling.Message
				t.Logf("RollingOut %s: %s", rolling.Reason, last)
			}
			replaced := e.replaced(ctx, class)
			if replaced > 0 {
				once.Do(func() { midway(t) })
			}
			return replaced == brokerCount && rolling.Reason == v1alpha1.ReasonComplete
		})
		if done {
			e.waitInSync(t)
			watch.end(t)
			return
		}
	}
	t.Fatalf("not all volumes were replaced: %s", last)
}

// replaced returns the number of claims with the given StorageClass.
func (e *environment) replaced(ctx context.Context, class string) (count int) {
	var list corev1.PersistentVolumeClaimList
	if e.List(ctx, &list) != nil {
		return 0
	}
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName == class &&
			claim.DeletionTimestamp == nil {
			count++
		}
	}
	return count
}

// localVolumes creates a StorageClass, and a volume of this class on each node. The first volume is
// a small file system. The class and the volumes are removed at the end of the test.
func (e *environment) localVolumes(t *testing.T) (class string) {
	class = e.namespace + "-local"
	nodes := strings.Fields(e.kubectl(t, "get", "nodes", "-o",
		`jsonpath={.items[*].metadata.labels.kubernetes\.io/hostname}`))
	if os.Getenv("FAULTS") == "" || len(nodes) < brokerCount {
		t.Skip("FAULTS is not set, or there are too few nodes: see hack/e2e-faults.sh")
	}
	manifest := fmt.Sprintf(`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %s},
  provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
`, class)
	root := t.TempDir()
	for i, node := range nodes[:brokerCount] {
		dir := filepath.Join(root, fmt.Sprintf("volume-%d", i))
		if i == 0 {
			e.faults(t, "volume", dir, fillingSize)
			t.Cleanup(func() { e.faults(t, "volume-remove", dir) })
		} else if err := os.Mkdir(dir, 0o777); err != nil { // the broker does not run as root
			t.Fatal(err)
		} else if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		manifest += fmt.Sprintf(`---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s-%d}
spec:
  storageClassName: %s
  capacity: {storage: 2Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  local: {path: %q}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
    {key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}
`, class, i, class, dir, node)
	}
	if _, err := command(t.Context(), manifest, "kubectl", "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = command(context.Background(), manifest, "kubectl", "delete", "--wait=false", "-f", "-")
	})
	return class
}

// fill fills the small volume under load, while a consumer group reads and commits. The broker must
// reject records but keep serving all other requests. Once retention has freed space, it must
// accept records again without a restart.
func (e *environment) fill(t *testing.T) {
	id := e.smallBroker(t)
	pod := &corev1.Pod{}
	if err := e.Get(t.Context(), client.ObjectKey{Name: brokerPod(id)}, pod); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/filling.yaml")
	e.waitReady(t, 1, topics+1)
	e.join(t, "e2e-filling", "")
	e.underLoad(t, func(t *testing.T) {
		producing := make(chan struct{})
		go func() { // it fails or ends when the broker refuses records
			defer close(producing)
			_, _ = command(t.Context(), "", "kubectl", "-n", e.namespace, "exec",
				brokerPod((id+1)%brokerCount), "--", "/heartwood", "bench", "produce", "--topic",
				filling, "--create=false", "--records", "400000", "--duration", "100s")
		}()
		e.waitPressure(t, id, true)
		e.kubectl(t, "exec", brokerPod((id+1)%brokerCount), "--", "/heartwood", "clean", "ledger",
			"--wait")
		e.checkCompacted(t, "ledger")
		e.waitConsumes(t)
		if !e.full(t.Context(), id) {
			t.Log("the volume had space again before all was checked")
		}
		e.waitPressure(t, id, false)
		<-producing
	})
	e.waitConsumed(t)
	left := e.mustCall(t, "POST", "leave", "topic", failover)
	e.measured(t, "%d records consumed, %d of them more than once", left.Consumed, left.Duplicates)
	e.kubectl(t, "delete", "topic", filling, "--timeout=120s")
	after := &corev1.Pod{}
	if err := e.Get(t.Context(), client.ObjectKey{Name: brokerPod(id)}, after); err != nil {
		t.Fatal(err)
	}
	if after.UID != pod.UID || after.Status.ContainerStatuses[0].RestartCount !=
		pod.Status.ContainerStatuses[0].RestartCount {
		t.Errorf("broker %d was restarted", id)
	}
}

// smallBroker returns the broker with the small volume.
func (e *environment) smallBroker(t *testing.T) int32 {
	t.Helper()
	claim := e.kubectl(t, "get", "pv", e.namespace+"-local-0", "-o",
		"jsonpath={.spec.claimRef.name}")
	_, id, ok := v1alpha1.ParseVolumeClaimName(claim)
	if !ok {
		t.Fatalf("the small volume belongs to claim %q", claim)
	}
	return id
}

// full reports whether a broker refuses clients' records.
func (e *environment) full(ctx context.Context, id int32) bool {
	var cluster v1alpha1.LogCluster
	return e.Get(ctx, client.ObjectKey{Name: logCluster}, &cluster) == nil &&
		cluster.FullBrokers()[id]
}

// waitPressure waits until a broker refuses clients' records, or accepts them again.
func (e *environment) waitPressure(t *testing.T, id int32, full bool) {
	t.Helper()
	until(t, fmt.Sprintf("broker %d full: %t", id, full), func(ctx context.Context) string {
		if e.full(ctx, id) != full {
			return e.condition(ctx, v1alpha1.ConditionStoragePressure).Message
		}
		return ""
	})
	t.Log(e.condition(t.Context(), v1alpha1.ConditionStoragePressure).Message)
}

// waitConsumes waits until the consumer group has read further records.
func (e *environment) waitConsumes(t *testing.T) {
	t.Helper()
	before := e.mustCall(t, "GET", "group", "topic", failover).Consumed
	until(t, "group reads on", func(ctx context.Context) string {
		answer, err := e.call(ctx, "GET", "group", url.Values{"topic": {failover}})
		if err != nil || answer.Consumed < before+200 {
			return fmt.Sprintf("%d records after %d, %v", answer.Consumed, before, err)
		}
		return ""
	})
}

// condition returns one of the LogCluster's conditions, or the zero value if the condition does not
// exist.
func (e *environment) condition(ctx context.Context, kind string) metav1.Condition {
	var cluster v1alpha1.LogCluster
	if e.Get(ctx, client.ObjectKey{Name: e.cluster}, &cluster) != nil ||
		cluster.Status.ObservedGeneration != cluster.Generation {
		return metav1.Condition{}
	}
	if found := meta.FindStatusCondition(cluster.Status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// poll calls done every second until done returns true. After deadline, poll returns false.
func (e *environment) poll(t *testing.T, done func(context.Context) bool) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for !done(ctx) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// isReady reports whether a pod is ready.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (e *environment) statefulSet(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	set := &appsv1.StatefulSet{}
	if err := e.Get(t.Context(), client.ObjectKey{Name: logCluster + "-broker"}, set); err != nil {
		t.Fatal(err)
	}
	return set
}

// claims returns the brokers' claims.
func (e *environment) claims(t *testing.T) []corev1.PersistentVolumeClaim {
	t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := e.List(t.Context(), &list); err != nil || len(list.Items) == 0 {
		t.Fatalf("%d claims, %v", len(list.Items), err)
	}
	return list.Items
}

// podUIDs returns the UIDs of the brokers' pods, sorted.
func (e *environment) podUIDs(t *testing.T) (uids []types.UID) {
	t.Helper()
	pods, err := e.pods(t.Context(), brokers)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		uids = append(uids, pods[i].UID)
	}
	slices.Sort(uids)
	return uids
}
