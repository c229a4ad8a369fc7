package dev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/manifest"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/output"
)

func imageTopic(t *testing.T, id byte, name, spec string, partitions int) *metadata.Topic {
	t.Helper()
	resource := &v1alpha1.Topic{}
	resource.Name = name
	if err := yaml.Unmarshal([]byte(spec), &resource.Spec); err != nil {
		t.Fatal(err)
	}
	topic, err := metadata.ResolveTopic(resource, nil)
	if err != nil {
		t.Fatal(err)
	}
	topic.ID = metadata.ID{id}
	for range partitions {
		topic.Partitions = append(topic.Partitions, &metadata.Partition{Replicas: []int32{0}})
	}
	return topic
}

func TestTopicLine(t *testing.T) {
	for spec, want := range map[string]string{
		`{}`: "topic t partitions=2 replicas=1 cleanup=Delete compression=producer retention=168h",
		`{cleanupPolicy: CompactDelete, compression: {type: uncompressed}, retention: {time: -1s, size: 5}}`: "topic t partitions=2" +
			" replicas=1 cleanup=CompactDelete compression=uncompressed minDirtyPercent=50 retention=unlimited retentionBytes=5",
		`{cleanupPolicy: Compact, compression: {type: lz4}, compaction: {minDirtyPercent: 3}}`: "topic t partitions=2 replicas=1" +
			" cleanup=Compact compression=lz4 minDirtyPercent=3",
		`{compression: {type: zstd, level: 19}}`: "topic t partitions=2 replicas=1 cleanup=Delete compression=zstd compressionLevel=19" +
			` encoder="zstd best (as levels 10 to 22)" retention=168h`,
	} {
		if got := topicLine(imageTopic(t, 1, "t", spec, 2)); got != want {
			t.Errorf("%s\n got %s\nwant %s", spec, got, want)
		}
	}
}

func TestFormatAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		24 * time.Hour: "24h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m",
		10 * time.Second: "10s", 0: "0s", -1: "unlimited",
		time.Hour + time.Second: "1h0m1s", 1500 * time.Millisecond: "1.5s", 20 * time.Hour: "20h",
	} {
		if got := formatAge(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestReadyLine(t *testing.T) {
	want := "ready bootstrap=127.0.0.1:9092,127.0.0.1:9093 http=http://127.0.0.1:9644 data=here " +
		"console=http://127.0.0.1:9644/console/"
	if got := readyLine([]string{"127.0.0.1:9092", "127.0.0.1:9093"}, "127.0.0.1:9644",
		"here"); got != want {
		t.Errorf("got line %q, want %q", got, want)
	}
}

func TestChangedLines(t *testing.T) {
	image := func(topics ...*metadata.Topic) *metadata.Image {
		return metadata.NewImage("c", metadata.CleanerBudget{}, nil, topics)
	}
	before := image(imageTopic(t, 1, "same", `{}`, 1), imageTopic(t, 2, "more", `{}`, 1),
		imageTopic(t, 3, "gone", `{reclaimPolicy: Delete}`, 1), imageTopic(t, 4, "again", `{}`, 1))
	after := image(imageTopic(t, 1, "same", `{segment: {maxAge: 1h}}`, 1),
		imageTopic(t, 2, "more", `{}`, 2), imageTopic(t, 5, "again", `{}`, 1))
	want := []string{
		"topic again partitions=1 replicas=1 cleanup=Delete compression=producer retention=168h",
		"topic more partitions=2 replicas=1 cleanup=Delete compression=producer retention=168h",
		"topic again deleted records=retained",
		"topic gone deleted records=deleted",
	}
	if diff := cmp.Diff(want, changedLines(before, after)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		text              string
		listen, advertise string // addresses of broker 2
	}{
		{"127.0.0.1:9092", "127.0.0.1:9094", ""},
		{"127.0.0.1:0", "127.0.0.1:0", ""},
		{"[::1]:9092", "[::1]:9094", ""},
		{"localhost:9092", "localhost:9094", ""},
		{":9092", ":9094", "127.0.0.1:9094"},
		{"0.0.0.0:9092", "0.0.0.0:9094", "127.0.0.1:9094"},
		{"[::]:9092", "[::]:9094", "127.0.0.1:9094"},
	} {
		a, err := parseAddress("listen", test.text)
		if err != nil {
			t.Fatal(err)
		}
		if listen, advertise := a.broker(2, 0); listen != test.listen || advertise != test.advertise {
			t.Errorf(
				"%s: broker 2: got listen address %s, advertised address %s; want %s, %s",
				test.text,
				listen,
				advertise,
				test.listen,
				test.advertise,
			)
		}
	}
}

// TestSlowStopIsAnnounced checks that a line is printed if the brokers take longer than slowStop to
// stop.
func TestSlowStopIsAnnounced(t *testing.T) {
	for took, want := range map[time.Duration]bool{slowStop - 1: false, slowStop + 1: true} {
		synctest.Test(t, func(t *testing.T) {
			var out output.Buffer
			c := &cluster{opts: Options{Out: &out}}
			if err := c.announceSlow(func() error { time.Sleep(took); return nil }); err != nil {
				t.Fatal(err)
			}
			if got := strings.HasPrefix(out.String(), "stopping: "); got != want {
				t.Errorf("after %v the output is %q", took, out.String())
			}
		})
	}
}

// TestClusterLine checks that the line for a changed LogCluster contains the changed fields.
func TestClusterLine(t *testing.T) {
	cluster := func(spec string) *v1alpha1.LogCluster {
		set, err := manifest.Load([]string{write(t, logCluster(spec))})
		if err != nil {
			t.Fatal(err)
		}
		return set.Cluster
	}
	before := cluster("brokers: 3, cleaner: {workers: 1}, topicDefaults: {retention: {time: 1h}}")
	for _, test := range []struct {
		after *v1alpha1.LogCluster
		want  string
	}{
		{before, ""},
		{nil, "logcluster demo deleted: the defaults apply"},
		{cluster("brokers: 3, cleaner: {workers: 2}"),
			"logcluster demo spec.cleaner.workers=2 spec.topicDefaults.retention.time=unset"},
	} {
		if got := clusterLine(before, test.after); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	if got := clusterLine(nil, before); !strings.Contains(got, "spec.topicDefaults.retention.time=1h") {
		t.Errorf("for a new LogCluster: got %q", got)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
