package smoke

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// volumeMiB is the size of the volume in TestFullVolumeRecovers.
const volumeMiB = 96

// pressured describes a cluster with a compacted topic. The topic is cleaned only under storage
// pressure, because its minimum dirty ratio is never exceeded.
const pressured = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: smoke}
spec:
  brokers: 1
  groups: {offsetsTopic: {partitions: 2}}
  metrics: {partitions: Full}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: state}
spec:
  cluster: smoke
  partitions: 2
  cleanupPolicy: Compact
  compaction: {minDirtyPercent: 100, maxGarbagePercent: 99}
  segment: {size: 4Mi}
`

// TestFullVolumeRecovers fills a small volume. At the threshold clean, the cleaner must reclaim
// space. At the threshold reject, the broker must refuse produce requests, while reads, commits and
// deletions continue. After a topic is deleted, a producer that has retried until then must succeed
// without a restart. All acknowledged records must be present.
func TestFullVolumeRecovers(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, pressured)
	p := process.StartOnVolume(t, volumeMiB, s.DataDir, append(s.Args(), "--log-level", "info")...)
	bootstrap, _ := p.Ready(t)
	ctx := process.WithDeadline(t)
	admin := kadm.NewClient(producer(t, bootstrap))
	for topic, partitions := range map[string]int32{"filler": 1, "kept": 1} {
		if _, err := admin.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	kept, state := ledger.New(), ledger.New()
	random := rand.New(rand.NewPCG(seed.New(t), 1))

	// Produce 40 MiB of garbage: 20 values for the same 64 keys.
	client := producer(t, bootstrap)
	for round := range 20 {
		for key := range 64 {
			if err := send(ctx, client, state, blob(random, "state", key, round, 32<<10)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if bytes := reclaimed(t, s); bytes > 0 {
		t.Fatalf("%v bytes are reclaimed before the volume is full", bytes)
	}
	// Fill the volume. If the cleaner is slower than the producer, records are refused until the
	// cleaner has reclaimed the garbage. Then fill the rest of the volume.
	impatient := impatientProducer(t, bootstrap)
	fill(ctx, t, impatient, random)
	await.For(t, func() string {
		bytes, level := reclaimed(t, s), gauge(t, s.Metrics(t), "volume_pressure_level")
		if bytes < 36<<20 || level > 2 {
			return fmt.Sprintf("%v bytes are reclaimed, level %v", bytes, level)
		}
		return ""
	})
	fill(ctx, t, impatient, random)
	metrics := s.Metrics(t)
	total, free, level := gauge(t, metrics, "volume_total_bytes"),
		gauge(t, metrics, "volume_free_bytes"), gauge(t, metrics, "volume_pressure_level")
	if total != volumeMiB<<20 || level < 3 || free > total*0.1 || free == 0 {
		t.Errorf("the volume has %v of %v bytes free at level %v", free, total, level)
	}
	if err := state.Check(readToEnd(ctx, t, admin, bootstrap, "state")); err != nil {
		t.Error(err)
	}
	commitOffset(ctx, t, admin)

	// A producer with the default retries must continue when space is free again.
	done := make(chan error, 1)
	go func() { done <- send(ctx, client, kept, blob(random, "kept", 1, 0, 1<<10)) }()
	select {
	case err := <-done:
		t.Fatalf("a record was not retried: %v", err)
	case <-time.After(2 * time.Second): // long enough for several retries
	}
	if _, err := admin.DeleteTopics(ctx, "filler"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for topic, book := range map[string]*ledger.Ledger{"state": state, "kept": kept} {
		if _, err := traffic.VerifyCompacted(ctx, bootstrap, topic, book); err != nil {
			t.Error(err)
		}
	}
	if text := p.Stderr.String(); !strings.Contains(text, "storage pressure rose") ||
		!strings.Contains(text, "storage pressure fell") {
		t.Error("the log does not contain the changes of storage pressure")
	}
}

// fill produces records until the broker refuses one.
func fill(ctx context.Context, t *testing.T, client *kgo.Client, random *rand.Rand) {
	t.Helper()
	for i := range volumeMiB << 10 / 32 {
		err := send(ctx, client, ledger.New(), blob(random, "filler", i, 0, 32<<10))
		if errors.Is(err, kerr.NotEnoughReplicas) {
			return
		}
		if err != nil {
			t.Fatalf("error of a refused record: %v, want NOT_ENOUGH_REPLICAS", err)
		}
	}
	t.Fatal("the broker accepts more records than the volume can hold")
}

// blob returns a record with random content, which cannot be compressed.
func blob(random *rand.Rand, topic string, key, round, size int) *kgo.Record {
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	value[0] = byte(round)
	return &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", key), Value: value}
}

// send produces a record and waits for the acknowledgement. It stores both in the ledger.
func send(ctx context.Context, client *kgo.Client, book *ledger.Ledger, r *kgo.Record) error {
	book.Sent(r)
	err := client.ProduceSync(ctx, r).FirstErr()
	if err == nil {
		book.Acknowledged(r)
	}
	return err
}

// impatientProducer returns a producer that does not retry refused records.
func impatientProducer(t *testing.T, bootstrap []string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RecordRetries(0),
		kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// commitOffset commits an offset and reads it.
func commitOffset(ctx context.Context, t *testing.T, admin *kadm.Client) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "state", Partition: 0, At: 7, LeaderEpoch: -1})
	if err := admin.CommitAllOffsets(ctx, "readers", offsets); err != nil {
		t.Fatalf("commit an offset on a full volume: %v", err)
	}
	committed, err := admin.FetchOffsets(ctx, "readers")
	if got, ok := committed.Lookup("state", 0); err != nil || !ok || got.At != 7 {
		t.Errorf("committed offset %+v, error %v, want 7", got, err)
	}
}

// gauge returns the value of a metric that has only one series.
func gauge(t *testing.T, metrics process.Metrics, name string) float64 {
	t.Helper()
	series := metrics["heartwood_"+name].GetMetric()
	if len(series) != 1 {
		t.Fatalf("metric %s has %d series", name, len(series))
	}
	return series[0].GetGauge().GetValue()
}

// reclaimed returns the number of bytes that the cleaner has freed in topic state.
func reclaimed(t *testing.T, s process.Setup) (bytes float64) {
	t.Helper()
	metrics := s.Metrics(t)
	for partition := range 2 {
		value, _ := metrics.Value("cleaner_reclaimed_bytes_total", "state", partition, "kind", "log")
		bytes += value
	}
	return bytes
}

// readToEnd reads a topic without producing to it, unlike traffic.ReadAll. It knows the end because
// each partition's last record is the latest one of its key, so the cleaner does not remove this
// record.
func readToEnd(ctx context.Context, t *testing.T, admin *kadm.Client, bootstrap []string,
	topic string) (read []*kgo.Record) {
	t.Helper()
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	left := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[end.Partition] = end.Offset - 1
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read up to %v: %v", left, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if last, ok := left[r.Partition]; ok && r.Offset >= last {
				delete(left, r.Partition)
			}
			read = append(read, r)
		})
	}
	return read
}
