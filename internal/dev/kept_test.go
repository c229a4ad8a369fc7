package dev

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
)

// keeps returns the number of records in a topic with one partition, or -1 if the topic does not
// exist.
func (r *running) keeps(topic string) int64 {
	r.t.Helper()
	ends, err := r.admin().ListEndOffsets(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	end, ok := ends.Lookup(topic, 0)
	if !ok || end.Err != nil {
		return -1
	}
	return end.Offset
}

func (r *running) produce(topic string) {
	r.t.Helper()
	if err := r.client().ProduceSync(r.t.Context(),
		&kgo.Record{Topic: topic, Value: []byte("kept")}).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// TestMissingManifestRemovesNothing checks that a file that is missing in a directory removes
// neither topics nor settings of the cluster, even after a restart. In the meantime, Kafka's tools
// can delete the missing file's topics, but no topic that a manifest describes (ADR 0330, ADR
// 0160).
func TestMissingManifestRemovesNothing(t *testing.T) {
	const erased = "partitions: 1, reclaimPolicy: Delete"
	opts := options(t, topic("stays", erased), topic("clock", erased))
	put(t, opts, "lost.yaml", topic("lost", erased), topic("other", erased))
	put(t, opts, "cluster.yaml", logCluster("brokers: 1, topicDefaults: {retention: {time: 3h}}"))
	r := start(t, opts)
	r.produce("lost")
	for _, name := range []string{"lost.yaml", "cluster.yaml"} {
		if err := os.Remove(filepath.Join(opts.Manifests[0], name)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, opts, "all.yaml", topic("stays", erased), topic("new", erased))
	if line := r.line("topic new "); !strings.Contains(line, "retention=3h") {
		t.Errorf("got line %q, want the retention of the missing LogCluster", line)
	}
	// The removal of this topic proves that the delay has passed.
	if line := r.line("topic "); line != "topic clock deleted records=deleted" {
		t.Errorf("got line %q", line)
	}
	r.log.await("--delete --topic lost")
	if got := r.keeps("lost"); got != 1 {
		t.Errorf("got %d records, want 1", got)
	}
	r.stop()

	put(t, opts, "all.yaml", topic("stays", erased)) // while heartwood dev is not running
	r = start(t, opts)
	r.log.await("--delete --topic lost")
	if line := r.line("topic "); line != "topic new deleted records=deleted" {
		t.Errorf("got line %q", line)
	}
	if got := r.keeps("lost"); got != 1 {
		t.Errorf("after a restart: got %d records, want 1", got)
	}
	for name, want := range map[string]error{"lost": nil, "stays": kerr.PolicyViolation} {
		response, err := r.admin().DeleteTopic(t.Context(), name)
		if !errors.Is(err, want) || want != nil &&
			!strings.Contains(response.ErrMessage, "remove Topic/stays in the manifest") {
			t.Errorf("%s: got error %v %q, want %v", name, err, response.ErrMessage, want)
		}
	}
	put(t, opts, "lost.yaml", topic("lost", erased), topic("other", erased))
	r.line("topic lost ")
	await.Until(t, "the topic is created again, empty", func() bool { return r.keeps("lost") == 0 })
	const changed = "logcluster demo spec.topicDefaults.retention.time=4h"
	put(t, opts, "cluster.yaml", logCluster("brokers: 1, topicDefaults: {retention: {time: 4h}}"))
	if line := r.line("logcluster demo "); line != changed {
		t.Errorf("got line %q", line)
	}
	put(t, opts, "cluster.yaml", "# none")
	put(t, opts, "lost.yaml", topic("lost", "partitions: 1, retention: {time: 2h}"))
	r.line("topic other deleted records=deleted")
}

// TestUnreadableManifestRemovesNothing checks that the topics in a file remain if the file is
// missing, empty or half-written. They also remain if the data directory does not know the files. A
// topic is removed only when its file can be read again and does not contain the topic.
func TestUnreadableManifestRemovesNothing(t *testing.T) {
	const erased = "partitions: 1, reclaimPolicy: Delete"
	opts := options(t, topic("a", erased), topic("b", erased))
	file := filepath.Join(opts.Manifests[0], "all.yaml")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	directory := opts.Manifests[0]
	opts.Manifests[0] = file
	r := start(t, opts)
	r.produce("a")
	for fault, change := range map[string]func() error{
		"empty file":                func() error { return os.Truncate(file, 0) },
		"no such file or directory": func() error { return os.Rename(file, file+".away") },
		"half-written file": func() error {
			return os.WriteFile(file, whole[:len(whole)/2+20], 0o600)
		},
	} {
		before := strings.Count(r.log.String(), "--delete --topic a")
		if err := change(); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "warning after "+fault, func() bool {
			return strings.Count(r.log.String(), "--delete --topic a") > before
		})
		if got := r.keeps("a"); got != 1 {
			t.Errorf("%s: got %d records, want 1", fault, got)
		}
		if err := os.WriteFile(file, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		r.line("manifests applied")
	}
	r.stop()

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), opts); !errors.Is(err, ErrUsage) ||
		!strings.Contains(err.Error(), "without -f, heartwood dev runs with the topics") {
		t.Errorf("start without the file: got error %v", err)
	}
	// The file that states the files of resources is lost.
	if err := os.Remove(filepath.Join(opts.DataDir, sourcesFile)); err != nil {
		t.Fatal(err)
	}
	opts.Manifests[0] = directory
	put(t, opts, "all.yaml", topic("b", erased))
	r = start(t, opts)
	r.log.await("does not state which file it is")
	put(t, opts, "all.yaml", topic("a", erased), topic("b", erased))
	r.line("manifests applied")
	put(t, opts, "all.yaml", topic("b", erased))
	r.log.await("they are about to be removed")
	if line := r.line("topic "); line != "topic a deleted records=deleted" {
		t.Errorf("got line %q", line)
	}
}
