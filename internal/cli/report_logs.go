package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/console/connect"
)

// A report contains the newest lines of a container's log: at most logBytesMax bytes and
// logLinesMax lines. The limit on lines bounds what the API server sends. PodLogOptions.LimitBytes
// is not used, because it selects the oldest bytes.
const (
	logBytesMax = 16 << 20
	logLinesMax = 200_000
)

// collectLogs adds the logs of the current and previous instances of the brokers' containers.
func (s *session) collectLogs(ctx context.Context, a *archive, cluster *v1alpha1.LogCluster) {
	pods, err := corev1client.NewForConfig(s.config)
	if err != nil {
		a.missing("logs", err)
		return
	}
	for _, id := range connect.BrokerIDs(cluster) {
		pod := v1alpha1.BrokerLeaseName(cluster.Name, id)
		for _, previous := range []bool{false, true} {
			a.collectLog(ctx, pods.Pods(s.namespace), "logs", pod, brokerLog(previous))
		}
	}
}

// collectLog adds a container's log. Most containers have no previous instance, so a missing log of
// a previous instance is not a fault.
func (a *archive) collectLog(ctx context.Context, pods corev1client.PodInterface, directory,
	pod string, options *corev1.PodLogOptions) {
	name := path.Join(directory, pod+".log")
	if options.Previous {
		name = path.Join(directory, pod+".previous.log")
	}
	options.TailLines = new(int64(logLinesMax))
	stream, err := pods.GetLogs(pod, options).Stream(ctx)
	if err != nil {
		if !options.Previous {
			a.missing(name, err)
		}
		return
	}
	defer func() { _ = stream.Close() }()
	newest := tail{limit: logBytesMax}
	if _, err := io.Copy(&newest, stream); err != nil {
		a.missing(name, err)
	}
	a.add(name, newest.bytes())
	if newest.dropped || newest.lines >= logLinesMax {
		a.missing(name, fmt.Errorf("truncated: it contains the newest %d MiB or %d lines at most",
			logBytesMax>>20, logLinesMax))
	}
}

// tail is a writer that keeps only the last complete lines, at most limit bytes.
type tail struct {
	limit   int
	kept    []byte // at most twice the limit
	lines   int    // number of lines that were written
	dropped bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.lines += bytes.Count(p, []byte{'\n'})
	if t.kept = append(t.kept, p...); len(t.kept) > 2*t.limit {
		t.cut()
	}
	return len(p), nil
}

// cut drops the oldest bytes in excess of the limit.
func (t *tail) cut() {
	if excess := len(t.kept) - t.limit; excess > 0 {
		t.kept, t.dropped = append(t.kept[:0], t.kept[excess:]...), true
	}
}

// bytes returns the kept lines. A first line without its beginning is omitted.
func (t *tail) bytes() []byte {
	if t.cut(); !t.dropped {
		return t.kept
	}
	_, complete, _ := bytes.Cut(t.kept, []byte{'\n'})
	return complete
}
