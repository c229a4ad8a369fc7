package dev

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
)

// running is a development cluster that a test runs.
type running struct {
	t       *testing.T
	lines   chan string // lines of standard output
	ready   map[string]string
	topics  []string // the output lines before the ready line
	cancel  context.CancelFunc
	stopped chan struct{}
	err     error
	log     *logBuffer
}

// options returns options with free ports. The manifests are in a temporary directory.
func options(t *testing.T, manifests ...string) Options {
	t.Helper()
	opts := Options{Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0",
		DataDir: filepath.Join(t.TempDir(), "data")}
	if len(manifests) > 0 {
		opts.Manifests = []string{t.TempDir()}
		put(t, opts, "all.yaml", manifests...)
	}
	return opts
}

// put writes a manifest in the way of an editor: it renames a new file to the name of the old one.
func put(t *testing.T, opts Options, name string, documents ...string) {
	t.Helper()
	partial := filepath.Join(t.TempDir(), "partial")
	if err := os.WriteFile(partial, []byte(strings.Join(documents, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(partial, filepath.Join(opts.Manifests[0], name)); err != nil {
		t.Fatal(err)
	}
}

func topic(name, spec string) string {
	return "apiVersion: heartwood.dev/v1alpha1\nkind: Topic\nmetadata: {name: " + name +
		"}\nspec: {cluster: demo, " + spec + "}\n"
}

func logCluster(spec string) string {
	return "apiVersion: heartwood.dev/v1alpha1\nkind: LogCluster\nmetadata: {name: demo}\nspec: {" +
		spec + "}\n"
}

// start runs a development cluster and waits for its ready line.
func start(t *testing.T, opts Options) *running {
	t.Helper()
	return startAt(t, opts, slog.LevelInfo)
}

// startAt is start with a log level.
func startAt(t *testing.T, opts Options, level slog.Level) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	r := &running{t: t, lines: make(chan string, 1000), cancel: cancel,
		stopped: make(chan struct{}),
		log:     &logBuffer{}}
	opts.Out, opts.Logger = writer, slog.New(slog.NewTextHandler(r.log,
		&slog.HandlerOptions{Level: level}))
	go func() {
		defer close(r.lines)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			r.lines <- scanner.Text()
		}
	}()
	go func() {
		defer close(r.stopped)
		r.err = Run(ctx, opts)
		writer.Close()
	}()
	t.Cleanup(func() { r.stop() })
	for line := range r.lines {
		rest, isReady := strings.CutPrefix(line, "ready ")
		if !isReady {
			r.topics = append(r.topics, line)
			continue
		}
		r.ready = map[string]string{}
		for field := range strings.FieldsSeq(rest) {
			key, value, _ := strings.Cut(field, "=")
			r.ready[key] = value
		}
		return r
	}
	<-r.stopped
	t.Fatalf("the cluster stopped before it was ready: %v", r.err)
	return nil
}

// stop stops the cluster like Ctrl-C, and fails the test if Run returns an error.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	<-r.stopped
	if r.err != nil {
		r.t.Errorf("Run returned %v", r.err)
		r.err = nil
	}
}

// line waits for a line on standard output that begins with prefix.
func (r *running) line(prefix string) string {
	r.t.Helper()
	for line := range r.lines {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	r.t.Fatalf("no output line begins with %q", prefix)
	return ""
}

// waitMax is the timeout for waits that must succeed. It is long enough for a busy machine.
const waitMax = await.Limit

// lasting returns client options with long retries. They are necessary because a broker's metadata
// image may not be the newest one.
func lasting(bootstrap string) []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.RetryTimeout(waitMax),
		kgo.RecordDeliveryTimeout(waitMax), kgo.UnknownTopicRetries(-1),
		kgo.MetadataMinAge(10 * time.Millisecond)}
}

func (r *running) client() *kgo.Client {
	r.t.Helper()
	client, err := kgo.NewClient(lasting(r.ready["bootstrap"])...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return client
}

func (r *running) admin() *kadm.Client { return kadm.NewClient(r.client()) }

func (r *running) get(path string) (int, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.ready["http"]+path,
		http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// logBuffer collects the log output of a cluster.
type logBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	waiting []chan struct{}
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, waiting := range b.waiting {
		close(waiting)
	}
	b.waiting = nil
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// await waits until the log contains text.
func (b *logBuffer) await(text string) {
	for {
		b.mu.Lock()
		found := strings.Contains(b.text.String(), text)
		more := make(chan struct{})
		b.waiting = append(b.waiting, more)
		b.mu.Unlock()
		if found {
			return
		}
		<-more
	}
}
