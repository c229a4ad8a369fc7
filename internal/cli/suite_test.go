package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/test/kit/devcluster"
	"heartwood.dev/heartwood/test/kit/envtest"
	"heartwood.dev/heartwood/test/kit/fakeapi"
	"heartwood.dev/heartwood/test/kit/podforward"
)

var update = flag.Bool("update", false, "write the golden files")

// manifests describes the cluster behind the forwarded ports. The tests write the records in its
// partition.
const manifests = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: main}
spec: {brokers: 1, cleaner: {workers: 0}}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec: {cluster: main, partitions: 2, replicas: 1, cleanupPolicy: Compact}
`

// user is the name of a user who has the rights in userRole.
const user = "alice"

// userRole contains the rights that docs/operate/kubectl-heartwood.md requires for reading.
var userRole = []rbacv1.PolicyRule{
	{APIGroups: []string{"heartwood.dev"}, Resources: []string{"logclusters", "topics"},
		Verbs: []string{"get", "list"}},
	{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}},
}

// fixture is a namespace with a LogCluster. The broker of the LogCluster is the broker of a
// development cluster.
type fixture struct {
	api        client.Client
	config     *rest.Config
	namespace  string
	kubeconfig string // path of the administrator's kubeconfig
	restricted string // path of user's kubeconfig
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{config: envtest.Start(t)}
	scheme := fakeapi.Scheme(t)
	var err error
	if f.api, err = client.New(f.config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if f.namespace, err = envtest.Namespace(t.Context(), f.config); err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(render.HTTPAddress("main", f.namespace, 0))
	if err != nil {
		t.Fatal(err)
	}
	cluster := devcluster.Start(t, 0, manifests, host)
	as := rest.CopyConfig(f.config)
	as.Impersonate.UserName = user
	f.kubeconfig = f.write(t, cluster, f.config)
	f.restricted = f.write(t, cluster, as)
	f.create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: userRole})
	f.create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}})
	envtest.AwaitRule(t, f.config, user, f.namespace, &userRole[0])
	return f
}

// write starts a proxy of the API server that forwards ports and uses the credentials in the
// configuration. It writes a kubeconfig for the proxy, and returns the path of the file.
func (f *fixture) write(t *testing.T, cluster *devcluster.Cluster, as *rest.Config) string {
	t.Helper()
	server := podforward.Start(t, as)
	server.Forward("main-broker-0", 9092, cluster.Bootstrap[0])
	server.Forward("main-broker-0", v1alpha1.HTTPPort, cluster.HTTP)
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", Namespace: f.namespace}
	config.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (f *fixture) create(t *testing.T, object client.Object) {
	t.Helper()
	object.SetNamespace(f.namespace)
	if err := f.api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) update(t *testing.T, object client.Object) {
	t.Helper()
	if err := f.api.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// createWithStatus creates an object and writes its status.
func createWithStatus[T client.Object](t *testing.T, f *fixture, object T, set func(T)) {
	t.Helper()
	f.create(t, object)
	set(object)
	if err := f.api.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func get[T client.Object](t *testing.T, f *fixture, name string, into T) T {
	t.Helper()
	if err := f.api.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: name},
		into); err != nil {
		t.Fatal(err)
	}
	return into
}

// result is the outcome of a command.
type result struct {
	out, errOut string
	err         error
}

// run runs a command as an administrator.
func (f *fixture) run(t *testing.T, args ...string) result {
	t.Helper()
	return runAs(t.Context(), f.kubeconfig, "", args...)
}

func runAs(ctx context.Context, kubeconfig, in string, args ...string) result {
	var out, errOut bytes.Buffer
	root := Root()
	root.SetArgs(append([]string{"--kubeconfig", kubeconfig}, args...))
	root.SetIn(strings.NewReader(in))
	root.SetOut(&out)
	root.SetErr(&errOut)
	err := root.ExecuteContext(ctx)
	return result{out.String(), errOut.String(), err}
}

// ok fails the test if the command has failed, and returns its output.
func (r result) ok(t *testing.T) string {
	t.Helper()
	if r.err != nil {
		t.Fatalf("%v\n%s%s", r.err, r.out, r.errOut)
	}
	return r.out
}

// fails fails the test unless the command failed with an error that contains want.
func (r result) fails(t *testing.T, want string) {
	t.Helper()
	if r.err == nil || !strings.Contains(r.err.Error(), want) {
		t.Errorf("error %v, want %q\n%s", r.err, want, r.out)
	}
}

// degraded fails the test unless the command returned ErrDegraded. It returns the output.
func (r result) degraded(t *testing.T) string {
	t.Helper()
	if !errors.Is(r.err, ErrDegraded) {
		t.Fatalf("error %v, want degraded\n%s%s", r.err, r.out, r.errOut)
	}
	return r.out
}

var (
	ages       = regexp.MustCompile(`\b(in )?[0-9]+[smhd]( ago| \()`)
	timestamps = regexp.MustCompile(`"[0-9]{4}-[0-9]{2}-[0-9]{2}T[^"]*Z"`)
)

// golden compares an output with a golden file after replacing ages, times and the namespace.
func (f *fixture) golden(t *testing.T, name, output string) {
	t.Helper()
	output = strings.ReplaceAll(output, f.namespace, "NAMESPACE")
	output = timestamps.ReplaceAllString(ages.ReplaceAllString(output, "${1}AGE$2"), `"TIME"`)
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(output), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), output); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// pod returns a broker's pod with a status as a kubelet would write it.
func pod(broker int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BrokerLeaseName("main", broker),
			Labels: map[string]string{v1alpha1.LabelCluster: "main"}},
		Spec: corev1.PodSpec{NodeName: "n1",
			Containers: []corev1.Container{{Name: "broker", Image: "heartwood"}}},
	}
}
