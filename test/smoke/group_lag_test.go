package smoke

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// lagTopic describes a topic whose partitions have different leaders.
const lagTopic = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: smoke}
spec: {brokers: 3}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec: {cluster: smoke, partitions: 6, replicas: 1, cleanupPolicy: Delete}
`

// TestGroupLagMetric compares the metric with the lag that an admin client computes. It compares
// them while the consumer is stopped in the middle of the topic, and after the consumer has read
// everything.
func TestGroupLagMetric(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 3, lagTopic)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	if err := traffic.Produce(process.WithDeadline(t), producer(t, bootstrap), ledger.New(),
		traffic.Updates{Topic: "tickets", Keys: 500, Rounds: 4, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("tickets"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	// Each partition must have a committed offset. Otherwise the client and the metric would compute
	// different lags.
	seen, read := map[int32]bool{}, 0
	for ctx := process.WithDeadline(t); len(seen) < 6; {
		fetches := client.PollRecords(ctx, 10)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { seen[r.Partition] = true; read++ })
	}
	check := func(want int64) {
		t.Helper()
		if err := client.CommitUncommittedOffsets(process.WithDeadline(t)); err != nil {
			t.Fatal(err)
		}
		lags, err := kadm.NewClient(client).Lag(process.WithDeadline(t), "billing")
		if err != nil {
			t.Fatal(err)
		}
		if got := lags["billing"].Lag.Total(); got != want {
			t.Errorf("the client computes a lag of %d, want %d", got, want)
		}
		await.For(t, func() string {
			metrics := s.Metrics(t)
			for _, m := range metrics["heartwood_group_lag_offsets"].GetMetric() {
				if got := int64(m.GetGauge().GetValue()); got == want {
					return ""
				}
			}
			return fmt.Sprintf("lag: got %v, want %d", metrics["heartwood_group_lag_offsets"], want)
		})
	}
	const records = 2000
	check(int64(records - read))
	for ctx := process.WithDeadline(t); read < records; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		read += fetches.NumRecords()
	}
	check(0)
}
