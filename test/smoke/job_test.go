package smoke

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/traffic"
)

const cluster = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: smoke}
spec: {brokers: 1}
`

// detailed describes the same LogCluster, with brokers that export every series of their
// partitions.
const detailed = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: smoke}
spec: {brokers: 1, metrics: {partitions: Full}}
`

const partitions = 2

// tickets is the manifest of a compacted topic. Its segments are small. So the cleaner has work
// after a few megabytes.
var tickets = fmt.Sprintf(`apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec:
  cluster: smoke
  partitions: %d
  cleanupPolicy: Compact
  compaction: {minDirtyPercent: 20}
  compression: {type: zstd, level: 3}
  segment: {size: 256Ki}
`, partitions)

func producer(t *testing.T, bootstrap []string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProducerBatchMaxBytes(64<<10), kgo.MaxBufferedRecords(1000),
		// The default of 5 s would delay the test after a broker was killed and restarted.
		kgo.MetadataMinAge(100*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// checkTopic reads the whole topic, compares it with the ledger and returns the number of records
// in the topic.
func checkTopic(t *testing.T, bootstrap []string, topic string, book *ledger.Ledger) int {
	t.Helper()
	held, err := traffic.VerifyCompacted(process.WithDeadline(t), bootstrap, topic, book)
	if err != nil {
		t.Fatalf("after %d acknowledged records: %v", book.Count(), err)
	}
	return held
}

// TestManifestsInCompactingLogOut covers the main use case. It starts a cluster from manifests,
// produces to a compacted topic, and waits until the cleaner has compacted the topic.
func TestManifestsInCompactingLogOut(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, detailed, tickets)
	p := process.Start(t, s.Args()...)
	bootstrap, lines := p.Ready(t)
	if !slices.ContainsFunc(lines,
		func(line string) bool { return strings.Contains(line, "tickets") }) {
		t.Errorf("no line names the topic: %q", lines)
	}
	if !slices.Equal(bootstrap, []string{s.Listen}) {
		t.Errorf("bootstrap is %v, want %s", bootstrap, s.Listen)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := s.Get(t, path); status != 200 {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}

	book := ledger.New()
	load := traffic.Updates{Topic: "tickets", Keys: 2000, Rounds: 15, DeleteEvery: 5, Seed: 1}
	client := producer(t, bootstrap)
	if err := traffic.Produce(process.WithDeadline(t), client, book, load); err != nil {
		t.Fatal(err)
	}
	waitForCleans(t, s)
	held := checkTopic(t, bootstrap, "tickets", book)
	if held >= book.Count() {
		t.Errorf("%d records were sent and %d remain: nothing was compacted", book.Count(),
			held)
	}
	checkReport(t, s)
	checkMetricsPage(t, s, client, cluster+"---\n"+tickets)

	if code := p.Stop(t, syscall.SIGINT); code != 0 {
		t.Errorf("SIGINT ended the process with code %d", code)
	}
	bootstrap, _ = process.Start(t, s.Args()...).Ready(t)
	if again := checkTopic(t, bootstrap, "tickets", book); again > held {
		t.Errorf("%d records before the restart, %d after it: removed records reappeared", held,
			again)
	}
}

// waitForCleans waits until the metrics report that the cleaner has cleaned every partition and
// freed bytes in each. A log that was never cleaned has a dirty ratio of 1.
func waitForCleans(t *testing.T, s process.Setup) {
	t.Helper()
	await.For(t, func() string {
		m := s.Metrics(t)
		for partition := range partitions {
			runs, found := m.Value("cleaner_runs_total", "tickets", partition, "result", "success")
			ratio, foundRatio := m.Value("log_dirty_ratio", "tickets", partition)
			reclaimed, foundReclaimed := m.Value("cleaner_reclaimed_bytes_total", "tickets",
				partition)
			removed, foundRemoved := m.Value("cleaner_removed_records_total", "tickets", partition)
			if !found || !foundRatio || !foundReclaimed || !foundRemoved {
				return fmt.Sprintf(
					"metrics of partition %d: runs %t, dirty ratio %t, reclaimed %t, removed %t",
					partition,
					found,
					foundRatio,
					foundReclaimed,
					foundRemoved,
				)
			}
			if runs < 1 || ratio > 0.2 || reclaimed <= 0 || removed <= 0 {
				return fmt.Sprintf(
					"partition %d: %v runs, dirty ratio %v, %v bytes reclaimed, %v records removed",
					partition,
					runs,
					ratio,
					reclaimed,
					removed,
				)
			}
		}
		return ""
	})
}

// checkReport checks the topic's report in the response to GET /api/v1/partitions.
func checkReport(t *testing.T, s process.Setup) {
	t.Helper()
	var answer report.Partitions
	s.GetJSON(t, "/api/v1/partitions", &answer)
	seen := 0
	for _, row := range answer.Partitions {
		if row.Topic != "tickets" {
			continue
		}
		seen++
		if !row.Leader || row.LogEndOffset == 0 || row.HighWatermark != row.LogEndOffset ||
			row.SizeBytes == 0 {
			t.Errorf("partition %d: %+v", row.Partition, row)
		}
		if row.Compaction == nil || row.Compaction.Runs["success"] == 0 ||
			row.Compaction.LastSuccess == nil {
			t.Errorf("partition %d reports no successful pass: %+v", row.Partition, row.Compaction)
		}
	}
	if seen != partitions {
		t.Errorf("%d rows for the %d partitions of tickets", seen, partitions)
	}
}

// TestAddedManifestIsApplied adds a topic's manifest to the directory of a running cluster. The
// topic must be created without a restart.
func TestAddedManifestIsApplied(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 3, cluster, tickets)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	if len(bootstrap) != 3 {
		t.Errorf("bootstrap of three brokers is %v", bootstrap)
	}
	s.Apply(t, "orders.yaml", strings.ReplaceAll(tickets, "name: tickets", "name: orders"))

	client := producer(t, bootstrap)
	admin, ctx := kadm.NewClient(client), process.WithDeadline(t)
	await.For(t, func() string {
		topics, err := admin.ListTopics(ctx, "orders")
		if err != nil {
			return err.Error()
		}
		if err := topics.Error(); err != nil || len(topics["orders"].Partitions) != partitions {
			return fmt.Sprintf("orders has %d partitions: %v", len(topics["orders"].Partitions),
				err)
		}
		return ""
	})
	book := ledger.New()
	if err := traffic.Produce(process.WithDeadline(t), client, book,
		traffic.Updates{Topic: "orders", Keys: 100, Rounds: 2, Seed: 2}); err != nil {
		t.Fatal(err)
	}
	checkTopic(t, bootstrap, "orders", book)
}
