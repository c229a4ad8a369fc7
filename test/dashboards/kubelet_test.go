//go:build dashboards

package dashboards

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/process"
)

// kubelet acts as the StatefulSet controller and the kubelet for one namespace. It creates the pods
// of each StatefulSet and runs their containers as processes.
type kubelet struct {
	t         *testing.T
	api       client.Client
	namespace string
	config    string // kubeconfig for the processes
	dir       string
	block     int // part of the pods' addresses: 127.<block>.<cluster>.<broker+1>
	clusters  []pods

	mu      sync.Mutex
	running map[string]*container // containers by pod name
	down    map[string]bool       // true for pods whose containers must not run
	// prepare contains shell commands by pod name. They run before the container's command, as root in
	// the container's mount namespace.
	prepare map[string]string
}

// pods describes a LogCluster's pods. With TLS, the brokers' HTTP port is secured, too.
type pods struct {
	cluster string
	brokers int
	secured bool
}

type container struct {
	process *process.Process
	uid     types.UID
	started metav1.Time
	stopped chan struct{} // closed when the process has exited
}

func podName(cluster string, broker int) string {
	return v1alpha1.BrokerLeaseName(cluster, int32(broker))
}

// address returns the IP address of a broker's pod.
func (k *kubelet) address(cluster string, broker int) string {
	for i, pods := range k.clusters {
		if pods.cluster == cluster {
			return fmt.Sprintf("127.%d.%d.%d", k.block, i, broker+1)
		}
	}
	panic("unknown cluster " + cluster)
}

func (k *kubelet) dataDir(cluster string, broker int) string {
	return filepath.Join(k.dir, "data", podName(cluster, broker))
}

// hosts writes a file in the format of /etc/hosts with the DNS names of all pods.
func (k *kubelet) hosts() {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n")
	for _, pods := range k.clusters {
		for broker := range pods.brokers {
			fmt.Fprintf(&b, "%s %s.%s-brokers.%s.svc\n", k.address(pods.cluster, broker),
				podName(pods.cluster, broker), pods.cluster, k.namespace)
		}
	}
	file := filepath.Join(k.dir, "hosts")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

// command returns the arguments of unshare that run the binary after the shell commands in prepare.
// In the mount namespace of unshare, /etc/hosts contains the names of the pods.
func (k *kubelet) command(prepare string, args ...string) []string {
	script := fmt.Sprintf("mount --bind %q /etc/hosts\n%s\nexec env KUBECONFIG=%q \"$@\"",
		filepath.Join(k.dir, "hosts"), prepare, k.config)
	return append([]string{"--map-root-user", "--mount", "sh", "-ec", script, "sh",
		os.Getenv("HEARTWOOD_BINARY")}, args...)
}

// run follows the StatefulSets until ctx ends. Then it ends all processes.
func (k *kubelet) run(ctx context.Context) {
	for ctx.Err() == nil {
		for _, pods := range k.clusters {
			if err := k.sync(ctx, pods.cluster); err != nil && ctx.Err() == nil &&
				!apierrors.IsNotFound(err) {
				k.t.Logf("kubelet: cluster %s: %v", pods.cluster, err)
			}
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.running {
		c.process.Stop(k.t, syscall.SIGKILL)
	}
}

// sync brings a cluster's pods closer to the state that the StatefulSet requires.
func (k *kubelet) sync(ctx context.Context, cluster string) error {
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: k.namespace, Name: cluster + "-broker"}
	if err := k.api.Get(ctx, key, set); err != nil {
		return err
	}
	template, err := json.Marshal(set.Spec.Template)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(template)
	revision := set.Name + "-" + hex.EncodeToString(sum[:5])
	ready := int32(0)
	for broker := range int(*set.Spec.Replicas) {
		ok, err := k.syncPod(ctx, set, revision, cluster, broker)
		if err != nil {
			return err
		}
		if ok {
			ready++
		}
	}
	status := appsv1.StatefulSetStatus{ObservedGeneration: set.Generation,
		Replicas: *set.Spec.Replicas, ReadyReplicas: ready, AvailableReplicas: ready,
		CurrentRevision: revision, UpdateRevision: revision}
	if set.Status.ReadyReplicas == ready && set.Status.UpdateRevision == revision &&
		set.Status.ObservedGeneration == set.Generation {
		return nil
	}
	set.Status = status
	return k.api.Status().Update(ctx, set)
}

// syncPod creates a pod, runs its container and reports the container's state. The result ready
// reports whether the pod is ready.
func (k *kubelet) syncPod(ctx context.Context, set *appsv1.StatefulSet, revision, cluster string,
	broker int) (bool, error) {
	name := podName(cluster, broker)
	pod := &corev1.Pod{}
	err := k.api.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: name}, pod)
	switch {
	case apierrors.IsNotFound(err):
		k.stop(name, syscall.SIGTERM)
		pod = &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(),
			Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = name, k.namespace
		pod.Labels = maps.Clone(pod.Labels)
		pod.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set,
			appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		if err := k.api.Create(ctx, pod); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	}
	if err := k.certificates(ctx, cluster, pod); err != nil {
		return false, err
	}
	k.ensure(pod, cluster, broker)
	return k.report(ctx, pod, cluster, broker)
}

// certificates writes the content of the Secret that a pod mounts to files.
func (k *kubelet) certificates(ctx context.Context, cluster string, pod *corev1.Pod) error {
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		secret := &corev1.Secret{}
		if err := k.api.Get(ctx, client.ObjectKey{Namespace: k.namespace,
			Name: volume.Secret.SecretName}, secret); err != nil {
			return err
		}
		dir := filepath.Join(k.dir, "certificates", cluster)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for name, data := range secret.Data {
			file := filepath.Join(dir, name)
			if old, err := os.ReadFile(file); err == nil && string(old) == string(data) {
				continue
			}
			if err := os.WriteFile(file+".new", data, 0o600); err != nil {
				return err
			}
			if err := os.Rename(file+".new", file); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensure starts a pod's container if it does not run.
func (k *kubelet) ensure(pod *corev1.Pod, cluster string, broker int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.running[pod.Name]; c != nil {
		select {
		case <-c.stopped:
			delete(k.running, pod.Name)
		default:
			if c.uid == pod.UID {
				return
			}
			c.process.Stop(k.t, syscall.SIGTERM) // the pod was replaced
		}
	}
	if k.down[pod.Name] {
		return
	}
	ip := k.address(cluster, broker)
	data := k.dataDir(cluster, broker)
	if err := os.MkdirAll(data, 0o755); err != nil {
		k.t.Fatal(err)
	}
	values := strings.NewReplacer("$(POD_NAME)", pod.Name, "$(POD_NAMESPACE)", k.namespace,
		"$(POD_UID)", string(pod.UID), "$(POD_IP)", ip, "=/data", "="+data,
		"=/etc/heartwood/certificates", "="+filepath.Join(k.dir, "certificates", cluster),
		"--listen=:", "--listen="+ip+":", "--http=:", "--http="+ip+":",
		"--peer-listen=:", "--peer-listen="+ip+":")
	var args []string
	for _, arg := range pod.Spec.Containers[0].Args {
		args = append(args, values.Replace(arg))
	}
	started := metav1.NewTime(time.Now().Truncate(time.Second)) // not after the broker's Lease
	p := process.StartBinary(k.t, "unshare", k.command(k.prepare[pod.Name], args...)...)
	c := &container{process: p, uid: pod.UID, started: started, stopped: make(chan struct{})}
	go func() {
		defer close(c.stopped)
		for range p.Lines { // the loop ends when the process exits
		}
	}()
	k.running[pod.Name] = c
}

// stop ends a pod's container, if it runs.
func (k *kubelet) stop(pod string, signal syscall.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.running[pod]; c != nil {
		c.process.Stop(k.t, signal)
		delete(k.running, pod)
	}
}

// prepared sets the shell commands that run before the next start of a pod's container.
func (k *kubelet) prepared(pod, commands string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prepare[pod] = commands
}

// kill ends a pod's container with SIGKILL. The container is restarted at once, unless down is
// true.
func (k *kubelet) kill(pod string, down bool) {
	k.mu.Lock()
	k.down[pod] = down
	k.mu.Unlock()
	k.stop(pod, syscall.SIGKILL)
}

// report writes a pod's status. The result ready reports whether the pod is ready.
func (k *kubelet) report(ctx context.Context, pod *corev1.Pod, cluster string,
	broker int) (bool, error) {
	k.mu.Lock()
	c := k.running[pod.Name]
	k.mu.Unlock()
	up := false
	if c != nil {
		select {
		case <-c.stopped:
		default:
			up = true
		}
	}
	ready := up && isReady(pod, k.address(cluster, broker))
	was := pod.Status.Phase == corev1.PodRunning && len(pod.Status.Conditions) > 0
	if was && len(pod.Status.ContainerStatuses) == 1 &&
		(pod.Status.Conditions[0].Status == corev1.ConditionTrue) == ready &&
		sameStart(pod.Status.ContainerStatuses[0].State.Running, c, up) {
		return ready, nil
	}
	state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137,
		FinishedAt: metav1.Now()}}
	if up {
		state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{
			StartedAt: c.started}}
	}
	condition := corev1.ConditionFalse
	if ready {
		condition = corev1.ConditionTrue
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: k.address(cluster, broker),
		PodIPs: []corev1.PodIP{{IP: k.address(cluster, broker)}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: condition,
			LastTransitionTime: metav1.Now()}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "broker", State: state, Ready: ready,
			Image: pod.Spec.Containers[0].Image, ImageID: pod.Spec.Containers[0].Image}}}
	return ready, k.api.Status().Update(ctx, pod)
}

// isReady sends the readiness probe to a pod's container.
func isReady(pod *corev1.Pod, address string) bool {
	get := pod.Spec.Containers[0].ReadinessProbe.HTTPGet
	//nolint:gosec // as the kubelet, which does not verify certificates of probes either
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}
	probe := &http.Client{Transport: transport, Timeout: 2 * time.Second}
	scheme := cmp.Or(strings.ToLower(string(get.Scheme)), "http")
	response, err := probe.Get(scheme + "://" + address + ":9644" + get.Path)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// sameStart reports whether the reported state of a container matches its present state.
func sameStart(reported *corev1.ContainerStateRunning, c *container, up bool) bool {
	if reported == nil || !up {
		return (reported != nil) == up
	}
	return reported.StartedAt.Equal(&c.started)
}
