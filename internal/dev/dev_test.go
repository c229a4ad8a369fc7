package dev

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestRunFromManifests(t *testing.T) {
	opts := options(t, logCluster("brokers: 3"),
		topic("tickets", "partitions: 3, cleanupPolicy: Compact, compression: {type: zstd}"),
		topic("events", "retention: {time: 24h, size: 1Mi}"))
	r := start(t, opts)
	want := []string{
		"topic events partitions=1 replicas=1 cleanup=Delete compression=producer retention=24h retentionBytes=1048576",
		"topic tickets partitions=3 replicas=1 cleanup=Compact compression=zstd minDirtyPercent=50",
	}
	if diff := cmp.Diff(want, r.topics); diff != "" {
		t.Errorf("lines before ready (-want +got):\n%s", diff)
	}
	if brokers := strings.Split(r.ready["bootstrap"], ","); len(brokers) != 3 {
		t.Errorf("got bootstrap %v, want three brokers", brokers)
	}
	if r.ready["data"] != opts.DataDir {
		t.Errorf("got data=%s, want %s", r.ready["data"], opts.DataDir)
	}
	metadata, err := r.admin().Metadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ids := metadata.Brokers.NodeIDs(); !slices.Equal(ids, []int32{0, 1, 2}) {
		t.Errorf("got node ids %v, want 0 to 2", ids)
	}
	var leaders []int32
	for _, p := range metadata.Topics["tickets"].Partitions.Sorted() {
		leaders = append(leaders, p.Leader)
	}
	if slices.Sort(leaders); !slices.Equal(leaders, []int32{0, 1, 2}) {
		t.Errorf("got leaders %v of tickets, want each broker once", leaders)
	}
}

// TestMetricsHaveABrokerLabel checks that each broker metric has the label broker (ADR 0005).
func TestMetricsHaveABrokerLabel(t *testing.T) {
	r := start(t, options(t, logCluster("brokers: 2"), topic("a", "partitions: 2")))
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := r.get(path); code != 200 {
			t.Errorf("%s: got response %d %s", path, code, body)
		}
	}
	_, page := r.get("/metrics")
	for _, series := range []string{
		`heartwood_partition_leader{broker="0",partition="0",topic="a"} 1`,
		`heartwood_partition_leader{broker="1",partition="1",topic="a"} 1`,
	} {
		if !strings.Contains(page, series) {
			t.Errorf("/metrics does not contain %s", series)
		}
	}
	if _, body := r.get("/api/v1/partitions"); strings.Count(body, `"topic":"a"`) != 2 {
		t.Errorf("got partitions %s, want two of topic a", body)
	}
}

func TestRestartKeepsTopicsAndRecords(t *testing.T) {
	opts := options(t, topic("a", "partitions: 1"))
	r := start(t, opts)
	if _, err := r.admin().CreateTopic(t.Context(), 1, 1, nil, "made"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "made"} {
		if err := r.client().ProduceSync(t.Context(),
			&kgo.Record{Topic: name, Value: []byte("kept")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r.stop()
	r = start(t, opts)
	ends, err := r.admin().ListEndOffsets(t.Context(), "a", "made")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "made"} {
		if end, _ := ends.Lookup(name, 0); end.Offset != 1 {
			t.Errorf("%s: got end offset %d after the restart, want 1", name, end.Offset)
		}
	}
	r.stop()
	opts.Manifests = nil
	if r = start(t, opts); len(r.topics) != 2 {
		t.Errorf("without -f: got topics %q, want the existing two", r.topics)
	}
}

func TestTopicsCanBeCreatedWithoutManifests(t *testing.T) {
	r := start(t, options(t))
	if len(r.topics) != 0 || strings.Contains(r.ready["bootstrap"], ",") {
		t.Errorf("empty cluster of one broker: got topics %q, bootstrap %s", r.topics,
			r.ready["bootstrap"])
	}
	if _, err := r.admin().CreateTopic(t.Context(), 2, 1, nil, "orders"); err != nil {
		t.Error(err)
	}
}

func TestDataDirectoryIsLocked(t *testing.T) {
	opts := options(t)
	start(t, opts)
	err := Run(t.Context(), opts)
	want := "--data-dir " + opts.DataDir +
		" is locked: another heartwood process uses it; stop that process, or choose another --data-dir"
	if !errors.Is(err, ErrUsage) || err.Error() != want {
		t.Errorf("second start: got error %v\nwant %s", err, want)
	}
}

// TestInvalidFlagsAndManifests checks that each error wraps ErrUsage. The error names the flag, or
// begins with the path of the field in the manifest.
func TestInvalidFlagsAndManifests(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no port": {func(o *Options) { o.Listen = "nowhere" },
			`--listen "nowhere": want host:port`},
		"port is not a number": {func(o *Options) { o.HTTP = "localhost:http" },
			`--http "localhost:http": want a port from 0 to 65535`},
		"not enough ports": {func(o *Options) { o.Listen, o.Brokers = "127.0.0.1:65534", 3 },
			"3 brokers need the ports 65534 to 65536"},
		"any port on all interfaces": {func(o *Options) { o.Listen = ":0" },
			"--listen :0: port 0 requires a host"},
		"advertised address of no host": {func(o *Options) { o.Advertise = ":9092" },
			`--advertise ":9092": want a host and a port`},
		"advertised without a port to lead to": {func(o *Options) { o.Advertise = "kafka:9092" },
			"--advertise kafka:9092: --listen needs a port"},
		"not enough advertised ports": {func(o *Options) {
			o.Listen, o.Advertise, o.Brokers = "127.0.0.1:20000", "kafka:65535", 2
		}, "--advertise kafka:65535: 2 brokers need the ports 65535 to 65536"},
		"port in use": {func(o *Options) { o.Listen = busy.Addr().String() },
			"address already in use; choose another --listen"},
		"http port in use": {func(o *Options) { o.HTTP = busy.Addr().String() },
			"address already in use; choose another --http"},
		"address of another host": {func(o *Options) { o.Listen = "192.0.2.1:9092" },
			"choose another --listen"},
		"profiles for other hosts": {func(o *Options) { o.HTTP, o.Pprof = ":0", true },
			"--pprof with --http :0: profiles are served on a loopback address only"},
		"profiles by an unresolved name": {
			func(o *Options) { o.HTTP, o.Pprof = "profiles.example:9644", true },
			"profiles are served on a loopback address only"},
		"brokers below zero": {func(o *Options) { o.Brokers = -1 },
			"--brokers -1: want at least 1"},
		"manifest missing": {func(o *Options) { o.Manifests = []string{"no/such.yaml"} },
			"no/such.yaml"},
		"invalid manifest": {singleManifest(t, topic("t", "partitions: 0")),
			"spec.partitions: Invalid value: 0"},
		"more replicas than brokers": {singleManifest(t, topic("t", "replicas: 3")),
			"invalid replication factor: not enough brokers: 3 replicas requested, 1 brokers exist"},
		"invalid data directory": {func(o *Options) { o.DataDir = "/dev/null/data" },
			"--data-dir: "},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options(t)
			test.change(&opts)
			err := Run(t.Context(), opts)
			if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v\nwant one that wraps ErrUsage and contains %s", err, test.want)
			}
			if strings.HasPrefix(test.want, "spec.") && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("the error does not begin with the path of the field: %v", err)
			}
		})
	}
}

func singleManifest(t *testing.T, manifest string) func(*Options) {
	return func(o *Options) {
		o.Manifests = []string{t.TempDir()}
		put(t, *o, "t.yaml", manifest)
	}
}

// TestInvalidChangesAtARestart checks that changes that are invalid while the cluster runs are also
// invalid at a restart.
func TestInvalidChangesAtARestart(t *testing.T) {
	opts := options(t, topic("a", "partitions: 3"))
	opts.Brokers = 2
	start(t, opts).stop()
	put(t, opts, "all.yaml", topic("a", "partitions: 2"))
	err := Run(t.Context(), opts)
	if !errors.Is(err, ErrUsage) ||
		!strings.HasPrefix(err.Error(),
			"spec.partitions: Invalid value: 2: partitions cannot shrink") {
		t.Errorf("fewer partitions: got error %v", err)
	}
	if !strings.HasSuffix(err.Error(),
		"("+filepath.Join(opts.Manifests[0], "all.yaml")+" Topic/a)") {
		t.Errorf("the error does not name the file: %v", err)
	}
	put(t, opts, "all.yaml", topic("a", "partitions: 3, replicas: 2"))
	start(t, opts).stop()
	opts.Brokers = 1
	err = Run(t.Context(), opts)
	if !errors.Is(err, ErrUsage) ||
		!strings.HasPrefix(err.Error(),
			"--brokers 1: brokers cannot be removed, because too few would remain") {
		t.Errorf("fewer brokers by the flag: got error %v", err)
	}
	opts.Brokers = 0
	err = Run(t.Context(), opts)
	if !errors.Is(err, ErrUsage) ||
		!strings.HasPrefix(err.Error(),
			"no LogCluster in the manifests, so 1 broker: brokers cannot be removed") {
		t.Errorf("fewer brokers because of a missing LogCluster: got error %v", err)
	}
	put(t, opts, "cluster.yaml", logCluster("brokers: 1"))
	err = Run(t.Context(), opts)
	if !errors.Is(err, ErrUsage) ||
		!strings.HasPrefix(err.Error(),
			"spec.brokers: Invalid value: 1: brokers cannot be removed") ||
		!strings.HasSuffix(err.Error(), "cluster.yaml LogCluster/demo)") {
		t.Errorf("fewer brokers in the LogCluster: got error %v", err)
	}
	opts.Brokers = 2
	start(t, opts)
}

// TestRemovedBrokerIsDrained checks that a removed broker runs until its replicas have been moved,
// and that no record is lost. The broker does not run at the next start.
func TestRemovedBrokerIsDrained(t *testing.T) {
	opts := options(t, topic("a", "partitions: 3"))
	opts.Brokers = 3
	r := start(t, opts)
	for i := range 300 {
		record := &kgo.Record{Topic: "a", Key: []byte{byte(i)}, Value: []byte("kept")}
		if err := r.client().ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r.stop()
	opts.Brokers = 2
	r = start(t, opts)
	r.line("broker 2 drained and stopped")
	ends, err := r.admin().ListEndOffsets(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	if total != 300 {
		t.Errorf("got %d records after draining, want 300", total)
	}
	r.stop()
	if r = start(t, opts); strings.Count(r.ready["bootstrap"], ",") != 1 {
		t.Errorf("got brokers %s at the next start, want two", r.ready["bootstrap"])
	}
}

// TestFaultsNameTheirFile checks that an error that results from several manifests names the
// topic's file and the field that causes the error.
func TestFaultsNameTheirFile(t *testing.T) {
	opts := options(t, topic("own", "minInSyncReplicas: 3"), topic("fine", "replicas: 1"),
		topic("inherits", "partitions: 1"))
	put(t, opts, "cluster.yaml", logCluster("brokers: 3, topicDefaults: {minInSyncReplicas: 2}"))
	err := Run(t.Context(), opts)
	if !errors.Is(err, ErrUsage) {
		t.Fatal(err)
	}
	want := "spec.minInSyncReplicas: Invalid value: 3: "
	where := "(" + filepath.Join(opts.Manifests[0], "all.yaml") + " Topic/own)"
	if text := err.Error(); !strings.HasPrefix(text, want) || !strings.HasSuffix(text, where) ||
		strings.Contains(text, "\n") {
		t.Errorf("got error %q, want %s...%s", text, want, where)
	}
}

// TestLostMetadataFile checks that a missing metadata file causes a warning, and that topics adopt
// their records. If the file is corrupt, Run fails.
func TestLostMetadataFile(t *testing.T) {
	opts := options(t, topic("a", "partitions: 1, replicas: 2"))
	opts.Brokers = 2
	r := start(t, opts)
	if err := r.client().ProduceSync(t.Context(),
		&kgo.Record{Topic: "a", Value: []byte("kept")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.stop()
	file := filepath.Join(opts.DataDir, "metadata.json")
	if err := os.Truncate(file, 20); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), file) ||
		!strings.Contains(err.Error(), "restore the file from a copy") {
		t.Errorf("corrupt metadata file: got error %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r = start(t, opts)
	r.log.await("metadata file is missing")
	if log := r.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("the start logged an error: %s", log)
	}
	ends, err := r.admin().ListEndOffsets(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup("a", 0); end.Offset != 1 {
		t.Errorf("got end offset %d, want 1", end.Offset)
	}
}

func TestLastLineReportsTheStop(t *testing.T) {
	opts := options(t)
	r := start(t, opts)
	r.cancel()
	if line := r.line("stopped"); line != "stopped data="+opts.DataDir {
		t.Errorf("got last line %q", line)
	}
}

func TestFailedStartReleasesItsResources(t *testing.T) {
	opts := options(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts.Listen, opts.Brokers = busy.Addr().String(), 2
	if err := Run(t.Context(), opts); err == nil {
		t.Fatal("the cluster started on a port in use")
	}
	busy.Close()
	opts.Listen = "127.0.0.1:0"
	start(t, opts) // succeeds only if the failed start released directories and ports
}

func TestStopBeforeReady(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, options(t, topic("a", "partitions: 1"))); err != nil {
		t.Errorf("with an ended context, Run returned %v", err)
	}
}

func TestDataDirectoryLayout(t *testing.T) {
	opts := options(t, topic("a", "partitions: 1"))
	opts.Brokers = 2
	start(t, opts).stop()
	found := map[string]bool{}
	entries, err := os.ReadDir(opts.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		found[entry.Name()] = true
	}
	want := map[string]bool{".lock": true, "metadata.json": true, "broker-0": true,
		"broker-1": true, "manifest-sources.json": true}
	if !maps.Equal(found, want) {
		t.Errorf("got files %v in the data directory, want %v", found, want)
	}
	if _, err := os.Stat(filepath.Join(opts.DataDir, "broker-0", "a-0")); err != nil {
		t.Error(err)
	}
}
