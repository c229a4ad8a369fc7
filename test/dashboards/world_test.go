//go:build dashboards

package dashboards

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/envtest"
	"heartwood.dev/heartwood/test/kit/fakeapi"
	"heartwood.dev/heartwood/test/kit/ports"
	"heartwood.dev/heartwood/test/kit/process"
)

// world is the namespace in which everything runs.
type world struct {
	*kubelet
	link     *link // link to the API server
	operator *process.Process
	metrics  string // address of the operator's metrics
}

// link is a TCP proxy to the API server. Its connections can be cut.
type link struct {
	target   string
	listener net.Listener
	mu       sync.Mutex
	cut      bool
	open     map[net.Conn]bool
}

func newLink(t *testing.T, target string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{target: target, listener: listener, open: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = listener.Close(); l.setCut(true) })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go l.forward(from)
		}
	}()
	return l
}

func (l *link) forward(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer to.Close()
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return
	}
	l.open[from] = true
	l.mu.Unlock()
	done := make(chan struct{})
	go func() { _, _ = io.Copy(to, from); _ = to.Close(); close(done) }()
	_, _ = io.Copy(from, to)
	_ = from.Close()
	<-done
	l.mu.Lock()
	delete(l.open, from)
	l.mu.Unlock()
}

// setCut ends all connections and refuses new ones, or allows connections again.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for connection := range l.open {
		_ = connection.Close()
	}
}

// require skips the test if a program or a permission that it needs is missing.
func require(t *testing.T) {
	t.Helper()
	for _, name := range []string{"prometheus", "prometheus-alertmanager", "unshare"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("SKIPPED: no dashboard was tested, because there is no %s: run apt-get install "+
				"--no-install-recommends prometheus prometheus-alertmanager", name)
		}
	}
	probe := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--mount", "sh", "-c",
		"mount --bind /etc/hosts /etc/hosts")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no dashboard was tested, because no mount namespace can be made: %v: %s",
			err, out)
	}
}

// newWorld starts the API server, the operator, and the kubelet of the clusters.
func newWorld(t *testing.T, clusters ...pods) *world {
	t.Helper()
	config := envtest.Start(t)
	scheme := fakeapi.Scheme(t)
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := envtest.Namespace(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	l := newLink(t, strings.Trim(strings.TrimPrefix(config.Host, "https://"), "/"))
	k := &kubelet{t: t, api: api, namespace: namespace, dir: t.TempDir(), clusters: clusters,
		block: 100 + os.Getpid()%100, running: map[string]*container{}, down: map[string]bool{},
		prepare: map[string]string{}}
	k.hosts()
	k.config = kubeconfig(t, config, "https://"+l.listener.Addr().String(), k.dir)
	w := &world{kubelet: k, link: l, metrics: ports.Free(t, 1)}
	w.startOperator("")
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var following sync.WaitGroup
	following.Go(func() { k.run(ctx) })
	t.Cleanup(func() { stop(); following.Wait(); w.logs() })
	return w
}

// startOperator runs the operator as one process that watches the namespace, after the shell
// commands in prepare. Without an identity, it does not use the Lease, because otherwise an outage
// of the API server would end the process.
func (w *world) startOperator(prepare string, identity ...string) {
	election := "--leader-elect=" + strconv.FormatBool(len(identity) > 0)
	w.operator = process.StartBinary(w.t, "unshare", w.command(prepare, append([]string{"operator",
		"--image=heartwood.example/heartwood:test", "--namespaces=" + w.namespace, election,
		"--metrics=" + w.metrics, "--health=" + ports.Free(w.t, 1)}, identity...)...)...)
	await.For(w.t, func() string {
		return map[bool]string{false: "the operator exports no metrics"}[listens(w.metrics)]
	})
}

// logs keeps the operator's log if the test failed.
func (w *world) logs() {
	if w.t.Failed() {
		w.t.Logf("log of the operator:\n%s", tail(w.operator.Stderr.String(), 4000))
	}
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }

// kubeconfig writes the configuration of a client that reaches the API server at the given address.
func kubeconfig(t *testing.T, config *rest.Config, address, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: address,
			CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// apply creates or patches the objects of a YAML file.
func (w *world) apply(documents string) {
	w.t.Helper()
	for document := range strings.SplitSeq(documents, "\n---\n") {
		var object unstructured.Unstructured
		if err := utilyaml.Unmarshal([]byte(document), &object.Object); err != nil {
			w.t.Fatalf("%v in %s", err, document)
		}
		object.SetNamespace(w.namespace)
		//nolint:staticcheck // the untyped form, because the documents have several kinds
		err := w.api.Patch(w.t.Context(), &object, client.Apply, client.ForceOwnership,
			client.FieldOwner("test"))
		if err != nil {
			w.t.Fatalf("apply: %v in %s", err, document)
		}
	}
}

// patch changes an object with a JSON merge patch.
func (w *world) patch(object client.Object, name, patch string) {
	w.t.Helper()
	object.SetName(name)
	object.SetNamespace(w.namespace)
	if err := w.api.Patch(w.t.Context(), object,
		client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.t.Fatalf("patch %s: %v", name, err)
	}
}

// cluster changes a LogCluster with a JSON merge patch.
func (w *world) cluster(name, patch string) {
	w.t.Helper()
	w.patch(&v1alpha1.LogCluster{}, name, patch)
}

// secret returns a value of a Secret once it exists.
func (w *world) secret(name, key string) string {
	w.t.Helper()
	value := ""
	await.For(w.t, func() string {
		secret := &corev1.Secret{}
		if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name},
			secret); err != nil {
			return err.Error()
		}
		value = string(secret.Data[key])
		return map[bool]string{true: "no value " + key}[value == ""]
	})
	return value
}

// ready waits until all partitions of a cluster's topics have all replicas in sync.
func (w *world) ready(cluster string, topics int32) {
	w.t.Helper()
	await.For(w.t, func() string {
		c := &v1alpha1.LogCluster{}
		if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster},
			c); err != nil {
			return err.Error()
		}
		if c.Status.Topics < topics || c.Status.UnderReplicatedPartitions > 0 ||
			c.Status.ReadyBrokers < c.Spec.Brokers {
			return fmt.Sprintf("%s is not ready: %+v", cluster, c.Status)
		}
		return ""
	})
}

// listens reports whether a TCP address accepts connections.
func listens(address string) bool {
	connection, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}

// pause waits. Scenarios use it to hold a state until Prometheus has scraped it.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
