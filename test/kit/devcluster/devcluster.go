// Package devcluster runs a development cluster in the process of a test.
package devcluster

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/dev"
)

// startTimeout is the maximum time for starting the cluster on a busy machine.
const startTimeout = 2 * time.Minute

// Cluster is a running development cluster.
type Cluster struct {
	Bootstrap []string // host:port by broker id
	HTTP      string   // host:port
	DataDir   string
}

// Start runs a cluster with the given manifests (YAML) until the test ends. The HTTP port accepts
// requests for localhost, IP addresses, and the names in hosts.
func Start(t testing.TB, brokers int, manifests string, hosts ...string) *Cluster {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{DataDir: filepath.Join(dir, "data")}
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Brokers: brokers,
			DataDir: c.DataDir, Out: out, Manifests: []string{file}, Hosts: hosts})
		_ = out.Close()
		ended <- err
	}()
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if line, found := strings.CutPrefix(lines.Text(), "ready "); found {
				ready <- line
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the cluster failed: %v", err)
		}
	})
	select {
	case line := <-ready:
		for field := range strings.FieldsSeq(line) {
			if value, found := strings.CutPrefix(field, "bootstrap="); found {
				c.Bootstrap = strings.Split(value, ",")
			}
			if value, found := strings.CutPrefix(field, "http=http://"); found {
				c.HTTP = value
			}
		}
	case err := <-ended:
		ended <- nil
		t.Fatalf("the cluster has stopped: %v", err)
	case <-time.After(startTimeout):
		t.Fatalf("the cluster was not ready after %s", startTimeout)
	}
	return c
}
