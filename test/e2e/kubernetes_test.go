//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// deadline is the limit for each wait. It is long, because pulling images and creating volumes
// takes time.
const deadline = 5 * time.Minute

// environment contains the clients of the Kubernetes cluster and the test's namespace.
type environment struct {
	client.Client
	set         *kubernetes.Clientset
	namespace   string
	image       string
	clientImage string
	cluster     string // LogCluster of conditions and changes; default: that in config/samples
	client      string // name of the client's pod
	skips       *skips
	figures     *figures
}

func newEnvironment(namespace, image, clientImage string) (*environment, error) {
	scheme := clientgoscheme.Scheme
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	typed, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &environment{Client: client.NewNamespacedClient(typed, namespace), set: set,
		namespace: namespace, image: image, clientImage: clientImage, cluster: logCluster,
		client: "client", skips: &skips{}, figures: &figures{}}, nil
}

// command runs a program in the root directory of the repository and returns its output. If the
// program fails, the error also contains the output.
func command(ctx context.Context, stdin string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "../.."
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func (e *environment) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), "", "kubectl",
		append([]string{"--namespace", e.namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// of returns an environment for another LogCluster, with its own client pod.
func (e *environment) of(cluster string) *environment {
	other := *e
	other.cluster, other.client = cluster, "client-"+cluster
	return &other
}

// atEnd runs kubectl at the end of the test, when the test's context has already ended. It logs a
// failure.
func (e *environment) atEnd(t *testing.T, args ...string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := command(context.Background(), "", "kubectl",
			append([]string{"--namespace", e.namespace}, args...)...); err != nil {
			t.Log(err)
		}
	})
}

// applyInvalid applies a manifest that the API server must reject. It returns the rejection's
// message.
func (e *environment) applyInvalid(t *testing.T, manifest string) string {
	t.Helper()
	out, err := command(t.Context(), manifest, "kubectl", "--namespace", e.namespace, "apply", "-f",
		"-")
	if err == nil {
		t.Errorf("accepted, but must be rejected:\n%s", manifest)
	}
	return out
}

// helm runs Helm in the root directory of the repository and returns its output.
func helm(ctx context.Context, args ...string) (string, error) {
	program, err := helmProgram(ctx)
	if err != nil {
		return "", err
	}
	return command(ctx, "", program, args...)
}

// helmProgram returns the path of Helm. The environment variable HELM can name a program (version
// 3.17 or later). By default, helmProgram builds the version in hack/tools.
func helmProgram(ctx context.Context) (string, error) {
	if program := os.Getenv("HELM"); program != "" {
		return exec.LookPath(program)
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", "-modfile=hack/tools/helm/go.mod", "helm")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build Helm: %w", err)
	}
	return strings.TrimSpace(string(path)), nil
}

// until calls poll every second until poll returns "". Any other result describes what is still
// missing. After deadline, the test fails with this description.
func until(t *testing.T, what string, poll func(context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	began := time.Now()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		missing := poll(ctx)
		if missing == "" {
			t.Logf("%s after %s", what, time.Since(began).Round(time.Second))
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s: %s", deadline, what, missing)
		}
	}
}

// stats is the response of the client pod; see Stats in test/e2e/client.
type stats struct {
	Acknowledged, Keys, Held int
	Gap                      int64           // ms
	Gaps                     map[int32]int64 // ms
	Began                    map[int32]int64 // start of each gap, in ms after the mark
	Measured                 int             // number of records with a latency
	P50, P99                 int64           // ms
	Latencies                map[int32]int64 // ms
	Reassigning, Consumed    int
	Duplicates               int
	Committed, Aborted       int // numbers of transactions
	Coordinator              int32
	Behind, CommitGap        int64
	Sources                  map[int32]int
}

// longest returns a text with the five longest gaps and their start times.
func (s stats) longest() string {
	partitions := slices.SortedFunc(maps.Keys(s.Gaps),
		func(a, b int32) int { return cmp.Compare(s.Gaps[b], s.Gaps[a]) })
	var words []string
	for _, p := range partitions[:min(len(partitions), 5)] {
		words = append(words, fmt.Sprintf("partition %d unavailable for %d ms from %d ms on", p,
			s.Gaps[p], s.Began[p]))
	}
	return strings.Join(words, ", ")
}

// call sends a request to the client pod through the API server's proxy. If the request fails, the
// error contains the client's response.
func (e *environment) call(ctx context.Context, verb, path string, query url.Values) (stats,
	error) {
	request := e.set.CoreV1().
		RESTClient().
		Verb(verb).
		Namespace(e.namespace).
		Resource("pods").
		Name(e.client + ":8080").
		SubResource("proxy").
		Suffix(path)
	for name, values := range query {
		request = request.Param(name, values[0])
	}
	var answer stats
	result := request.Do(ctx)
	body, err := result.Raw()
	if err != nil {
		return answer, fmt.Errorf("%s %s of the client: %w: %s (see also its log)", verb, path, err,
			causes(err))
	}
	err = json.Unmarshal(body, &answer)
	return answer, err
}

// causes returns the body of an error response. client-go stores the body in the error's details.
func causes(err error) (all string) {
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Details != nil {
		for _, cause := range status.ErrStatus.Details.Causes {
			all += cause.Message
		}
	}
	return all
}

func (e *environment) mustCall(t *testing.T, verb, path string, pairs ...string) stats {
	t.Helper()
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	answer, err := e.call(ctx, verb, path, query)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// checkCompacted reads the whole topic. Every key's last acknowledged value must exist, and no
// deleted key must have a value.
func (e *environment) checkCompacted(t *testing.T, topic string) stats {
	t.Helper()
	answer := e.mustCall(t, "GET", "check", "topic", topic)
	t.Logf("%s: %d records acknowledged, %d exist, %d keys", topic, answer.Acknowledged,
		answer.Held,
		answer.Keys)
	return answer
}

func (e *environment) pods(ctx context.Context, labels client.MatchingLabels) ([]corev1.Pod,
	error) {
	var list corev1.PodList
	err := e.List(ctx, &list, labels)
	return list.Items, err
}
