//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
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
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// deadline ends a step that waits for what does not come; pulling images and making volumes takes
// its time.
const deadline = 5 * time.Minute

// world is the Kubernetes cluster and the namespace the test works in.
type world struct {
	client.Client
	set         *kubernetes.Clientset
	namespace   string
	image       string
	clientImage string
}

func newWorld(namespace, image, clientImage string) (*world, error) {
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
	return &world{Client: client.NewNamespacedClient(typed, namespace), set: set,
		namespace: namespace, image: image, clientImage: clientImage}, nil
}

// command runs a program in the repository's root and returns what it prints; fails says whether it
// is expected to fail.
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

func (w *world) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), "", "kubectl",
		append([]string{"--namespace", w.namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refused applies a manifest that must not be taken, and returns why it was not.
func (w *world) refused(t *testing.T, manifest string) string {
	t.Helper()
	out, err := command(t.Context(), manifest, "kubectl", "--namespace", w.namespace, "apply", "-f",
		"-")
	if err == nil {
		t.Errorf("taken, but should be refused:\n%s", manifest)
	}
	return out
}

// helm runs HELM, a Helm of 3.17 or later, or the one of hack/tools.
func helm(ctx context.Context, args ...string) (string, error) {
	if program := os.Getenv("HELM"); program != "" {
		return command(ctx, "", program, args...)
	}
	return command(ctx, "", "go",
		append([]string{"tool", "-modfile=hack/tools/helm/go.mod", "helm"}, args...)...)
}

// until asks every second, until ask returns nothing; that is what it still waits for.
func until(t *testing.T, what string, ask func(context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	began := time.Now()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		missing := ask(ctx)
		if missing == "" {
			t.Logf("%s after %s", what, time.Since(began).Round(time.Second))
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("waited %s in vain until %s: %s", deadline, what, missing)
		}
	}
}

// stats is the client's answer; see test/e2e/client.
type stats struct {
	Acknowledged, Keys, Held int
	Gap                      int64           // ms
	Gaps                     map[int32]int64 // ms
	Began                    map[int32]int64 // when these began, in ms after the mark
	Taken                    map[int32]int64 // ms
	Moving, Consumed, Again  int
	Sources                  map[int32]int
}

// longest tells the five longest gaps, and when they began.
func (s stats) longest() string {
	partitions := slices.SortedFunc(maps.Keys(s.Gaps),
		func(a, b int32) int { return cmp.Compare(s.Gaps[b], s.Gaps[a]) })
	var words []string
	for _, p := range partitions[:min(len(partitions), 5)] {
		words = append(words, fmt.Sprintf("partition %d stood for %d ms from %d ms on", p,
			s.Gaps[p], s.Began[p]))
	}
	return strings.Join(words, ", ")
}

// ask calls the client pod by way of the API server. An error carries the client's own words.
func (w *world) ask(ctx context.Context, verb, path string, query url.Values) (stats, error) {
	request := w.set.CoreV1().
		RESTClient().
		Verb(verb).
		Namespace(w.namespace).
		Resource("pods").
		Name("client:8080").
		SubResource("proxy").
		Suffix(path)
	for name, values := range query {
		request = request.Param(name, values[0])
	}
	var answer stats
	result := request.Do(ctx)
	body, err := result.Raw()
	if err != nil {
		return answer, fmt.Errorf("%s %s of the client (its log has its own words): %w: %s", verb,
			path, err, body)
	}
	err = json.Unmarshal(body, &answer)
	return answer, err
}

func (w *world) mustAsk(t *testing.T, verb, path string, pairs ...string) stats {
	t.Helper()
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	answer, err := w.ask(ctx, verb, path, query)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// checkKept reads a topic whole: every key's last acknowledged value is there, and no deleted key
// is back.
func (w *world) checkKept(t *testing.T, topic string) stats {
	t.Helper()
	answer := w.mustAsk(t, "GET", "check", "topic", topic)
	t.Logf("%s: %d records acknowledged, %d held, %d keys", topic, answer.Acknowledged, answer.Held,
		answer.Keys)
	return answer
}

func (w *world) pods(ctx context.Context, labels client.MatchingLabels) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := w.List(ctx, &list, labels)
	return list.Items, err
}
