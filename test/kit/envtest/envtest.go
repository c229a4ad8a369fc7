// Package envtest gives tests a real API server: etcd and kube-apiserver as processes of the test,
// with Heartwood's CRDs.
//
// Start it once a test package (it takes some 10 s) and give each test its own Namespace: nothing
// in envtest deletes the objects of a namespace. The processes end with the test, however that
// ends: in order, on a signal, shortly before `go test -timeout` would panic, or killed (guard.go).
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

// assetsVariable names the folder of etcd and kube-apiserver.
const assetsVariable = "KUBEBUILDER_ASSETS"

// startTimeout is how long the processes may take to answer. On a busy machine the 20 s that
// envtest allows are not enough, nor are the five tries that each begin anew.
const startTimeout = 2 * time.Minute

// stopMargin is how long before the deadline of `go test` the processes are ended.
const stopMargin = 15 * time.Second

// Start starts an API server that has the CRDs of config/crd, and stops it when t ends.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	if err := checkAssets(os.Getenv(assetsVariable)); err != nil {
		t.Fatal(err)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(root, "config", "crd")},
		ErrorIfCRDPathMissing: true,

		ControlPlaneStartTimeout: startTimeout,
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
	// The client's own rate limit would only slow tests down.
	config.QPS = -1
	return config
}

// Namespace makes a namespace with a name of its own.
func Namespace(ctx context.Context, config *rest.Config) (string, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	made, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make a namespace: %w", err)
	}
	return made.Name, nil
}

// stopEarly stops the processes where no cleanup runs: on a signal, and when the test is about to
// run out of time.
func stopEarly(t testing.TB, stop func() error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var timeUp <-chan time.Time
	if test, ok := t.(*testing.T); ok {
		if deadline, ok := test.Deadline(); ok {
			timeUp = time.After(time.Until(deadline) - stopMargin)
		}
	}
	ended := make(chan struct{})
	t.Cleanup(func() { signal.Stop(signals); close(ended) })
	go func() {
		select {
		case <-ended:
			return
		case got := <-signals:
			fmt.Fprintf(os.Stderr, "envtest: %v: stopping the API server\n", got)
		case <-timeUp:
			fmt.Fprintln(os.Stderr,
				"envtest: the test is about to time out: stopping the API server")
		}
		_ = stop() // nothing is left to tell it to
		os.Exit(1)
	}()
}

// checkAssets says how to get the programs when they are not there. A test is never skipped for
// want of them.
func checkAssets(folder string) error {
	if folder == "" {
		return fmt.Errorf("%s is not set; this test needs etcd and kube-apiserver: "+
			`run "make test", or: export %s="$(hack/kubetools/assets.sh)"`, assetsVariable,
			assetsVariable)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf(
				`%s=%s holds no %s: unset it and run "make test", or build it with hack/kubetools/assets.sh: %w`,
				assetsVariable,
				folder,
				name,
				err,
			)
		}
	}
	return nil
}

// moduleRoot finds the folder of go.mod, from the folder of the test upward.
func moduleRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", fmt.Errorf("find the module: no go.mod at or above the test's folder")
		}
		folder = parent
	}
}
