package smoke

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// seriesMax is the maximum number of series that a broker exports by default for a topic with one
// partition. This includes series that have the label topic but not the label partition.
const seriesMax = 20

// busy is the manifest of a cluster with a topic in which a pass takes minutes.
const busy = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: smoke}
spec: {brokers: 3, cleaner: {ioRate: 64Ki}}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec:
  cluster: smoke
  partitions: 1
  replicas: 3
  cleanupPolicy: Compact
  compaction: {minDirtyPercent: 1}
  segment: {size: 256Ki}
`

// TestDefaultSeriesOfAPartitionAreLimited counts a partition's series when there are the most of
// them: while a pass runs and a transaction is open.
func TestDefaultSeriesOfAPartitionAreLimited(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 3, busy)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	book := ledger.New()
	if err := traffic.Produce(process.WithDeadline(t), producer(t, bootstrap), book,
		traffic.Updates{Topic: "tickets", Keys: 2000, Rounds: 60, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	// The transaction must stay open for as long as a pass takes on a busy machine.
	pending, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.TransactionalID("pay"),
		kgo.TransactionTimeout(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer pending.Close()
	if err := pending.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := pending.ProduceSync(process.WithDeadline(t), &kgo.Record{Topic: "tickets",
		Key: []byte("open"), Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var names []string
	await.For(t, func() string {
		names = largestSeries(s.Metrics(t), "tickets")
		for _, transient := range []string{"cleaner_eta_seconds", "cleaner_progress_ratio",
			"log_hanging_transactions", "log_oldest_transaction_timestamp_seconds"} {
			if !slices.Contains(names, "heartwood_"+transient) {
				return fmt.Sprintf("no broker exports %s with the others: %v", transient, names)
			}
		}
		return ""
	})
	// The first pass has not ended, so one series is still absent.
	if len(names)+1 > seriesMax {
		t.Errorf("%d series, want at most %d:\n%s", len(names)+1, seriesMax,
			strings.Join(names, "\n"))
	}
	s.Apply(t, "cluster.yaml", strings.Replace(busy, "spec: {", "spec: {metrics: {partitions: Full}, ",
		1))
	await.For(t, func() string {
		if names := largestSeries(s.Metrics(t), "tickets"); len(names) < 50 {
			return fmt.Sprintf("only %d series with the level Full", len(names))
		}
		return ""
	})
}

// largestSeries returns the names of a topic's series on the broker that has the most of them. A
// name occurs once for each series.
func largestSeries(metrics process.Metrics, topic string) []string {
	byBroker := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		for _, metric := range metrics[name].GetMetric() {
			labels := map[string]string{}
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if labels["topic"] == topic {
				byBroker[labels["broker"]] = append(byBroker[labels["broker"]], name)
			}
		}
	}
	var largest []string
	for _, names := range byBroker {
		if len(names) > len(largest) {
			largest = names
		}
	}
	return largest
}
