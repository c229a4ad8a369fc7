package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/api/v1alpha1"
)

const samples = "../../config/samples"

func TestSamplesAreValid(t *testing.T) {
	set, err := Load([]string{samples})
	if err != nil {
		t.Fatal(err)
	}
	if set.Cluster == nil || set.Cluster.Name != "demo" || set.Cluster.Spec.Brokers != 3 {
		t.Errorf("got cluster %+v, want demo with 3 brokers", set.Cluster)
	}
	policies := map[string]v1alpha1.CleanupPolicy{}
	var names []string
	for _, topic := range set.Topics {
		names = append(names, topic.Name)
		policies[topic.Name] = topic.Spec.CleanupPolicy
	}
	if diff := cmp.Diff([]string{"events", "sessions", "tickets"}, names); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	want := map[string]v1alpha1.CleanupPolicy{"tickets": "Compact", "events": "Delete",
		"sessions": "CompactDelete"}
	if diff := cmp.Diff(want, policies); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
	sessions, tickets := set.Topics[1].Spec, set.Topics[2].Spec
	// The CRD has no default for the number of partitions, because the LogCluster determines it.
	if sessions.Partitions != 0 || tickets.ReclaimPolicy != v1alpha1.ReclaimRetain {
		t.Errorf("got %d partitions and reclaim policy %q, want none and the CRD's default",
			sessions.Partitions, tickets.ReclaimPolicy)
	}
	if tickets.Compaction.TombstoneRetention.Duration != time.Minute ||
		tickets.Segment.Size.Value() != 1<<20 {
		t.Errorf(
			"got tombstoneRetention %v and segment size %v, want 1m and 1Mi",
			tickets.Compaction.TombstoneRetention,
			tickets.Segment.Size,
		)
	}
}

// TestSamplesAreShort checks that the samples are short, because they are the first files that new
// users read.
func TestSamplesAreShort(t *testing.T) {
	files, err := filepath.Glob(samples + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); lines > 50 {
			t.Errorf("%s has %d lines, want at most 50", file, lines)
		}
	}
}

// wantFaults returns the expected faults for a file in testdata/refused. The file contains them as
// comments.
func wantFaults(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var faults []string
	for line := range strings.Lines(string(text)) {
		if fault, ok := strings.CutPrefix(line, "# fault: "); ok {
			faults = append(faults, strings.TrimSpace(fault))
		}
	}
	return faults
}

// faults returns the messages in an error that Load has returned.
func faults(err error) []string {
	var messages []string
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	for _, one := range joined.Unwrap() {
		var fault *Error
		if errors.As(one, &fault) {
			messages = append(messages, fault.Message)
		}
	}
	return messages
}

// TestInvalidManifestsAreRejected checks that Load returns exactly the faults that each file lists.
// TestMessagesMatchTheAPIServer checks the same files against a real API server.
func TestInvalidManifestsAreRejected(t *testing.T) {
	files, err := filepath.Glob("testdata/refused/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		_, err := Load([]string{file})
		if diff := cmp.Diff(wantFaults(t, file), faults(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const topicHead = "apiVersion: heartwood.dev/v1alpha1\nkind: Topic\n"

func TestErrorNamesFieldThenFileAndResource(t *testing.T) {
	file := write(
		t,
		"topics.yaml",
		topicHead+"metadata: {name: tickets}\nspec: {cluster: demo, compression: {type: gzip, level: 30}}\n",
	)
	_, err := Load([]string{file})
	want := "spec.compression.level: Invalid value: the level of gzip must be 1 to 9, " +
		"or -1 for its default (" + file +
		" Topic/tickets)"
	if err == nil || err.Error() != want {
		t.Errorf("got error\n%v\nwant\n%s", err, want)
	}
}

// TestFaultsBetweenObjects checks that Load detects faults that involve several objects, such as
// duplicates, and returns the faults of all objects.
func TestFaultsBetweenObjects(t *testing.T) {
	head := "---\napiVersion: heartwood.dev/v1alpha1\nkind: "
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{
			"two topics with the same Kafka name",
			head + "Topic\nmetadata: {name: a}\nspec: {cluster: c}\n" + head +
				"Topic\nmetadata: {name: b}\nspec: {cluster: c, topicName: a}\n",
			[]string{`spec.topicName: Duplicate value: "a": the Topic a in FILE has this name`},
		},
		{
			"two topics with the same resource name",
			head + "Topic\nmetadata: {name: a}\nspec: {cluster: c}\n" + head +
				"Topic\nmetadata: {name: a}\nspec: {cluster: c, topicName: b}\n",
			[]string{`metadata.name: Duplicate value: "a": FILE contains a Topic of this name`},
		},
		{
			"topics of two clusters, without a LogCluster",
			head + "Topic\nmetadata: {name: a}\nspec: {cluster: c}\n" + head +
				"Topic\nmetadata: {name: b}\nspec: {cluster: d}\n",
			[]string{`spec.cluster: Invalid value: "d": only one cluster is allowed, and the Topic a in FILE belongs to cluster c`},
		},
		{"no LogCluster or Topic",
			"---\n# topics come later\n---\napiVersion: v1\nkind: ConfigMap\n",
			[]string{"no LogCluster or Topic found"}},
		{
			"two clusters",
			head + "LogCluster\nmetadata: {name: a}\nspec: {}\n" + head +
				"LogCluster\nmetadata: {name: b}\nspec: {}\n",
			[]string{`metadata.name: Invalid value: "b": only one LogCluster is allowed, and FILE contains LogCluster a`},
		},
		{
			"a topic of another cluster",
			head + "LogCluster\nmetadata: {name: a}\nspec: {}\n" + head +
				"Topic\nmetadata: {name: t}\nspec: {cluster: b}\n",
			[]string{`spec.cluster: Invalid value: "b": the LogCluster of these manifests is a: use its name`},
		},
		{
			"a topic of another namespace",
			head + "LogCluster\nmetadata: {name: a}\nspec: {}\n" + head +
				"Topic\nmetadata: {name: t, namespace: far}\nspec: {cluster: a}\n",
			[]string{`metadata.namespace: Invalid value: "far": the LogCluster a is in namespace default: use the same namespace for the Topic`},
		},
		{"unknown kind", head + "Topik\nmetadata: {name: t}\n",
			[]string{`kind: no matches for kind "Topik" in version "heartwood.dev/v1alpha1"`}},
		{
			"unknown version",
			"apiVersion: heartwood.dev/v9\nkind: Topic\nmetadata: {name: t}\n",
			[]string{`kind: no matches for kind "Topic" in version "heartwood.dev/v9"`},
		},
		{"faults of all objects are returned",
			head + "Topic\nmetadata: {name: a}\nspec: {cluster: c, partitions: 0}\n" + head +
				"Topic\nmetadata: {name: b}\nspec: {cluster: c, x: 1}\n",
			[]string{
				"spec.partitions: Invalid value: 0: spec.partitions in body should be greater than or equal to 1",
				`spec.x: unknown field "spec.x"`,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := write(t, "all.yaml", test.text)
			_, err := Load([]string{file})
			for i := range test.want {
				test.want[i] = strings.ReplaceAll(test.want[i], "FILE", file)
			}
			if diff := cmp.Diff(test.want, faults(err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckUpdateAppliesTransitionRules(t *testing.T) {
	topic := func(spec string) *v1alpha1.Topic {
		set, err := Load([]string{write(t, "t.yaml", topicHead+"metadata: {name: t}\nspec: "+spec)})
		if err != nil {
			t.Fatal(err)
		}
		return set.Topics[0]
	}
	old := topic(`{cluster: demo, partitions: 3, segment: {size: 1Mi, maxAge: 90s}}`)
	for spec, want := range map[string]string{
		`{cluster: demo, partitions: 4, cleanupPolicy: Compact, retention: {time: -1s}}`: "",
		`{cluster: demo, partitions: 2}`: `spec.partitions: Invalid value: 2: partitions cannot shrink, as records would be lost: ` +
			`keep their number, or make a new Topic (Topic/t)`,
		`{cluster: prod, partitions: 3}`:               `spec.cluster: Invalid value: "prod": cluster cannot be changed: make a new Topic in the other cluster (Topic/t)`,
		`{cluster: demo, partitions: 3, topicName: t}`: `spec: Invalid value: topicName cannot be set, changed or removed later: make a new Topic (Topic/t)`,
	} {
		err := CheckUpdate(old, topic(spec))
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", spec, err, want)
		}
	}
}

// BenchmarkFirstLoad measures compiling the rules of both kinds and validating the samples, as at
// the start of heartwood dev.
func BenchmarkFirstLoad(b *testing.B) {
	for b.Loop() {
		for _, file := range []string{"heartwood.dev_topics.yaml",
			"heartwood.dev_logclusters.yaml"} {
			if _, err := loadRules(file); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := Load([]string{samples}); err != nil {
			b.Fatal(err)
		}
	}
}
