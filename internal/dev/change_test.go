package dev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestManifestChangesAreApplied(t *testing.T) {
	opts := options(t, topic("a", "partitions: 1"), topic("kept", "partitions: 1"),
		topic("gone", "partitions: 1, reclaimPolicy: Delete"))
	r := start(t, opts)
	produce := func(topic string) {
		t.Helper()
		if err := r.client().ProduceSync(t.Context(),
			&kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce("kept")
	produce("gone")

	put(t, opts, "new.yaml", topic("new", "partitions: 2"))
	if line := r.line("topic new "); !strings.Contains(line, "partitions=2") {
		t.Errorf("got line %q, want partitions=2", line)
	}
	produce("new")

	put(t, opts, "all.yaml", topic("a", "partitions: 3, cleanupPolicy: Compact"))
	if line := r.line("topic a "); !strings.Contains(line, "partitions=3") ||
		!strings.Contains(line, "cleanup=Compact") {
		t.Errorf("got line %q, want partitions=3 and cleanup=Compact", line)
	}
	if line := r.line("topic gone "); line != "topic gone deleted records=deleted" {
		t.Errorf("got line %q, want records=deleted", line)
	}
	if line := r.line("topic kept "); line != "topic kept deleted records=retained" {
		t.Errorf("got line %q, want records=retained", line)
	}

	put(t, opts, "all.yaml", topic("a", "partitions: 3"), topic("kept", "partitions: 1"),
		topic("gone", "partitions: 1"))
	r.line("topic kept ")
	r.stop()
	r = start(t, opts)
	ends, err := r.admin().ListEndOffsets(t.Context(), "kept", "gone")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"kept": 1, "gone": 0} {
		if end, _ := ends.Lookup(name, 0); end.Offset != want {
			t.Errorf("%s: got end offset %d, want %d because of its reclaimPolicy", name, end.Offset, want)
		}
	}
}

// TestDefaultNumberOfPartitionsAppliesToNewTopics checks that a topic whose manifest does not set
// the number of partitions keeps the number with which it was created.
func TestDefaultNumberOfPartitionsAppliesToNewTopics(t *testing.T) {
	defaults := func(partitions string) string {
		return logCluster("brokers: 1, topicDefaults: {partitions: " + partitions + "}")
	}
	opts := options(t, defaults("3"), topic("a", ""), topic("b", "partitions: 2"))
	r := start(t, opts)
	put(t, opts, "all.yaml", defaults("5"), topic("a", ""), topic("b", ""), topic("c", ""))
	if line := r.line("topic c "); !strings.Contains(line, "partitions=5") {
		t.Errorf("got line %q, want partitions=5", line)
	}
	details, err := r.admin().ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"a": 3, "b": 2} {
		if got := len(details[name].Partitions); got != want {
			t.Errorf("%s has %d partitions, want %d", name, got, want)
		}
	}
	put(t, opts, "all.yaml", defaults("5"), topic("a", "partitions: 2"), topic("b", ""),
		topic("c", ""))
	r.log.await("partitions cannot shrink, as records would be lost")
}

// TestInvalidChangeDoesNotAffectOthers checks that an invalid change of a topic is logged with the
// API server's message, and that changes of other topics are applied. If a manifest cannot be read,
// no change is applied.
func TestInvalidChangeDoesNotAffectOthers(t *testing.T) {
	opts := options(t, topic("a", "partitions: 2"))
	r := start(t, opts)

	put(t, opts, "all.yaml", topic("a", "partitions: 0"), topic("b", "partitions: 1"))
	r.log.await("spec.partitions: Invalid value: 0")
	put(t, opts, "all.yaml", "kind: {")
	r.log.await("did not find expected")

	put(t, opts, "all.yaml", topic("a", "partitions: 2"))
	r.line("manifests applied")

	put(t, opts, "all.yaml", topic("a", "partitions: 1"), topic("c", "partitions: 1"))
	r.line("topic c ")
	r.log.await("partitions cannot shrink, as records would be lost")
	put(t, opts, "all.yaml", topic("a", "partitions: 2, topicName: A"), topic("c", "partitions: 1"))
	r.log.await("topicName cannot be set, changed or removed later")
	put(t, opts, "all.yaml", logCluster("brokers: 4"), topic("a", "partitions: 2"),
		topic("c", "partitions: 1"), topic("d", "partitions: 1"))
	r.line("topic d ")
	r.log.await("heartwood dev runs 1; restart it to change their number")

	// The brokers apply the new metadata image shortly after the line is printed. Until then, the
	// producer retries.
	if err := r.client().ProduceSync(t.Context(),
		&kgo.Record{Topic: "d", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	topics, err := r.admin().ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if names := topics.Names(); strings.Join(names, " ") != "a c d" ||
		len(topics["a"].Partitions) != 2 {
		t.Errorf("got topics %v, and topic a with %d partitions", names, len(topics["a"].Partitions))
	}
}

// TestAllKindsOfFileChangesAreDetected changes manifests in place, by a rename, and through a
// symbolic link. It also replaces a symbolic link as in a ConfigMap volume, and changes a file in a
// directory that was created again.
func TestAllKindsOfFileChangesAreDetected(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, topics ...string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Join(topics, "---\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	write("single/one.yaml", topic("one", "partitions: 1"))
	write("elsewhere/target.yaml", topic("linked", "partitions: 1"))
	do(os.Symlink(in("elsewhere/target.yaml"), in("link.yaml")))
	write("volume/..data_1/map.yaml", topic("map", "partitions: 1"))
	do(os.Symlink("..data_1", in("volume/..data")),
		os.Symlink("..data/map.yaml", in("volume/map.yaml")))
	write("folder/f.yaml", topic("folder", "partitions: 1"))
	write("far/g.yaml", topic("far", "partitions: 1"))
	do(os.Symlink(in("far/g.yaml"), in("folder/g.yaml")))

	opts := options(t)
	opts.Manifests = []string{in("single/one.yaml"), in("link.yaml"), in("volume"), in("folder")}
	r := start(t, opts)

	write("single/one.yaml", topic("one", "partitions: 2"))
	r.line("topic one partitions=2")
	write("single/.one.swp", topic("one", "partitions: 3"))
	do(os.Rename(in("single/.one.swp"), in("single/one.yaml")))
	r.line("topic one partitions=3")
	write("elsewhere/target.yaml", topic("linked", "partitions: 2"))
	r.line("topic linked partitions=2")
	write("other/target.yaml", topic("linked", "partitions: 3"))
	do(os.Remove(in("link.yaml")), os.Symlink(in("other/target.yaml"), in("link.yaml")))
	r.line("topic linked partitions=3")
	write("other/target.yaml", topic("linked", "partitions: 4"))
	r.line("topic linked partitions=4")
	write("far/g.yaml", topic("far", "partitions: 2"))
	r.line("topic far partitions=2")
	write("volume/..data_2/map.yaml", topic("map", "partitions: 2"))
	do(os.Symlink("..data_2", in("volume/..data_tmp")),
		os.Rename(in("volume/..data_tmp"), in("volume/..data")),
		os.RemoveAll(in("volume/..data_1")))
	r.line("topic map partitions=2")
	do(os.Rename(in("folder"), in("old")))
	r.log.await("no such file or directory")
	write("folder/f.yaml", topic("folder", "partitions: 2"))
	do(os.Symlink(in("far/g.yaml"), in("folder/g.yaml")))
	r.line("topic folder partitions=2")
	write("folder/f.yaml", topic("folder", "partitions: 3"))
	r.line("topic folder partitions=3")
}
