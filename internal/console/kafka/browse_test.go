package kafka_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/dev"
)

// start runs a development cluster of one broker until the test ends, and returns its address.
func start(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	stopped := make(chan error, 1)
	go func() {
		stopped <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0",
			DataDir: dir, Out: writer})
		_ = writer.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(reader)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "ready bootstrap="); ok {
			go func() { _, _ = io.Copy(io.Discard, reader) }()
			bootstrap, _, _ := strings.Cut(rest, " ")
			return bootstrap
		}
	}
	t.Fatal("the cluster did not start")
	return ""
}

// produce creates a topic and writes n records to each partition. Record i in a partition has the
// key and value that text returns.
func produce(t *testing.T, bootstrap, topic string, partitions, n int, text func(i int) string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1_000_000))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), int32(partitions), 1, nil, topic)
	if err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	for p := range partitions {
		for i := range n {
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(p),
				Key: []byte(text(i)), Value: []byte(text(i))})
		}
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, bootstrap string) *kafka.Client {
	t.Helper()
	client, err := kafka.New([]string{bootstrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// TestPagesContainEachRecordOnce checks that the pages of a browse together contain each record
// exactly once, in both directions and for different page sizes.
func TestPagesContainEachRecordOnce(t *testing.T) {
	const partitions, records = 3, 200
	bootstrap := start(t)
	produce(t, bootstrap, "all", partitions, records, func(i int) string { return fmt.Sprint(i) })
	client := connect(t, bootstrap)
	for _, query := range []kafka.Query{{Limit: 7}, {Limit: 100}, {Limit: 500},
		{Limit: 7, Backward: true}, {Limit: 100, Backward: true}, {Limit: 50, Key: []byte("9")},
		{Limit: 50, Value: []byte("9"), Backward: true}} {
		want := 0
		for i := range records {
			if strings.Contains(fmt.Sprint(i), string(append(query.Key, query.Value...))) {
				want += partitions
			}
		}
		query.Topic = "all"
		seen, pages := map[[2]int64]bool{}, 0
		for done := false; !done; pages++ {
			page, err := client.Browse(t.Context(), query)
			if err != nil || page.Limited != "" || pages > want {
				t.Fatalf("%+v: page %d: limited by %q, error %v", query, pages, page.Limited, err)
			}
			for _, r := range page.Records {
				key := [2]int64{int64(r.Partition), r.Offset}
				if seen[key] || string(r.Value) != fmt.Sprint(r.Offset) {
					t.Fatalf("%+v: record %v twice, or with value %q", query, key, r.Value)
				}
				seen[key] = true
			}
			done = len(page.Next) == 0
			query.From, query.Partitions = page.Next, nil
			for p := range page.Next {
				query.Partitions = append(query.Partitions, p)
			}
		}
		if len(seen) != want {
			t.Errorf("%+v: got %d records in %d pages, want %d", query, len(seen), pages, want)
		}
	}
}

// TestBrowseIsBounded checks that a page ends when its records exceed 8 MiB, and that the next
// pages continue.
func TestBrowseIsBounded(t *testing.T) {
	bootstrap := start(t)
	const records = 40
	large := strings.Repeat("x", 450<<10)
	produce(t, bootstrap, "large", 1, records, func(i int) string { return fmt.Sprint(i) + large })
	client := connect(t, bootstrap)
	for _, backward := range []bool{false, true} {
		query := kafka.Query{Topic: "large", Backward: backward}
		var offsets []int64
		for pages := 1; ; pages++ {
			page, err := client.Browse(t.Context(), query)
			if err != nil || pages > records {
				t.Fatalf("page %d: %v", pages, err)
			}
			if len(page.Records) > 20 {
				t.Errorf("got %d records of 900 KiB on one page", len(page.Records))
			}
			for _, r := range page.Records {
				offsets = append(offsets, r.Offset)
			}
			if query.From = page.Next; len(page.Next) == 0 {
				break
			}
		}
		slices.Sort(offsets)
		if len(offsets) != records || len(slices.Compact(offsets)) != records {
			t.Errorf("backward %t: got %d records, want %d", backward, len(offsets), records)
		}
	}
}

func TestBrowseBeginsAtATime(t *testing.T) {
	bootstrap := start(t)
	produce(t, bootstrap, "timed", 1, 3, func(i int) string { return fmt.Sprint(i) })
	client := connect(t, bootstrap)
	for since, want := range map[time.Duration]int{-time.Hour: 3, time.Hour: 0} {
		page, err := client.Browse(t.Context(), kafka.Query{Topic: "timed",
			Since: time.Now().Add(since)})
		if err != nil || len(page.Records) != want || len(page.Next) != 0 {
			t.Errorf("%v: got %d records, next %v, error %v", since, len(page.Records), page.Next, err)
		}
	}
	if _, err := client.Browse(t.Context(), kafka.Query{Topic: "unknown"}); err == nil {
		t.Error("unknown topic: got no error")
	}
}
