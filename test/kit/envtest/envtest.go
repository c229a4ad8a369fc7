// Package envtest provides a real API server for tests: etcd and kube-apiserver as child processes
// of the test, with Heartwood's CRDs.
//
// Start it once per test package (it takes about 10 s) and use a new Namespace in each test:
// envtest does not delete the objects of a namespace. The processes end when the test process ends:
// on success or failure, on a signal, and shortly before `go test -timeout` would panic. If the
// test process is killed, a guard process kills etcd and kube-apiserver (guard.go).
package envtest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// assetsVariable is the environment variable that contains the directory of etcd and
// kube-apiserver.
const assetsVariable = "KUBEBUILDER_ASSETS"

// startTimeout is the maximum time for starting the processes. By default, controller-runtime's
// envtest waits 20 s in each of five attempts. On a busy machine this is not enough, because each
// attempt starts from the beginning.
const startTimeout = 2 * time.Minute

// stopMargin is the time between stopping the processes and the deadline of `go test`.
const stopMargin = 15 * time.Second

// Start starts an API server with the CRDs in config/crd, and stops it at the end of the test.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, filepath.Join(root, "config", "crd"))
}

// StartWithoutCRDs starts an API server without CRDs, and stops it at the end of the test.
func StartWithoutCRDs(t testing.TB) *rest.Config {
	t.Helper()
	return start(t)
}

func start(t testing.TB, crds ...string) *rest.Config {
	t.Helper()
	if err := checkAssets(os.Getenv(assetsVariable)); err != nil {
		t.Fatal(err)
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths:     crds,
		ErrorIfCRDPathMissing: true,

		ControlPlaneStartTimeout: startTimeout,
	}
	if err := collectLess(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceValue(environment.Stop)
	stopEarly(t, stop)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop the API server: %v", err)
		}
	})
	config, err := environment.Start()
	if err != nil {
		t.Fatalf("start the API server: %v", err)
	}
	if err := guard(t); err != nil {
		t.Fatal(err)
	}
	// Disable the client's own rate limit, which would slow down the tests.
	config.QPS = -1
	return config
}

// collectLess sets an environment variable that the processes inherit. It makes them collect
// garbage less often. With the default, garbage collection takes a quarter of their CPU time.
func collectLess() error {
	if err := os.Setenv("GOGC", "400"); err != nil {
		return fmt.Errorf("set GOGC: %w", err)
	}
	return nil
}

// Namespace creates a namespace with a generated name.
func Namespace(ctx context.Context, config *rest.Config) (string, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	created, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a namespace: %w", err)
	}
	return created.Name, nil
}

// stopEarly stops the processes in the cases in which no cleanup runs: on a signal, and shortly
// before the test times out.
func stopEarly(t testing.TB, stop func() error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var timeout <-chan time.Time
	if test, ok := t.(*testing.T); ok {
		if deadline, ok := test.Deadline(); ok {
			timeout = time.After(time.Until(deadline) - stopMargin)
		}
	}
	ended := make(chan struct{})
	t.Cleanup(func() { signal.Stop(signals); close(ended) })
	go func() {
		select {
		case <-ended:
			return
		case got := <-signals:
			fmt.Fprintf(os.Stderr, "envtest: received %v: stopping the API server\n", got)
		case <-timeout:
			fmt.Fprintln(os.Stderr,
				"envtest: the test is about to time out: stopping the API server")
		}
		_ = stop() // no error report, because the process exits next
		os.Exit(1)
	}()
}

// checkAssets returns an error with instructions if etcd or kube-apiserver is missing. The test
// then fails instead of being skipped.
func checkAssets(directory string) error {
	if directory == "" {
		return fmt.Errorf("%s is not set; this test needs etcd and kube-apiserver: "+
			`run "make test", or: export %s="$(hack/kubetools/assets.sh)"`, assetsVariable,
			assetsVariable)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(directory, name)); err != nil {
			return fmt.Errorf(
				`%s=%s has no %s: unset it and run "make test", or build it with hack/kubetools/assets.sh: %w`,
				assetsVariable,
				directory,
				name,
				err,
			)
		}
	}
	return nil
}

// moduleRoot returns the directory of go.mod, which is the test's directory or one of its parents.
func moduleRoot() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			return directory, nil
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return "", fmt.Errorf("find the module: no go.mod at or above the test's directory")
		}
		directory = parent
	}
}
