package smoke

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/process"
)

// events describes a topic that stores batches in the producer's codec. It has no retention time,
// because the test's records have old timestamps.
const events = `apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: events}
spec:
  cluster: smoke
  cleanupPolicy: Delete
  retention: {time: -1s}
`

// TestFranzGoProducesAndConsumes runs the checks of test/compat with franz-go. It produces with all
// five codecs and with idempotence. The records include null values and headers. It reads from the
// beginning, from an offset, from a timestamp and from the end.
func TestFranzGoProducesAndConsumes(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, cluster, events)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	begin := time.UnixMilli(1_700_000_000_000)
	codecs := map[uint8]kgo.CompressionCodec{
		0: kgo.NoCompression(), 1: kgo.GzipCompression(), 2: kgo.SnappyCompression(),
		3: kgo.Lz4Compression(), 4: kgo.ZstdCompression(),
	}
	var sent []*kgo.Record
	for number := range uint8(len(codecs)) {
		client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...),
			kgo.DefaultProduceTopic("events"), kgo.ProducerBatchCompression(codecs[number]))
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][2][]byte{{[]byte("key"), value(number)}, {[]byte("key"), nil},
			{nil, value(number)}} {
			sent = append(sent, &kgo.Record{
				Key: pair[0], Value: pair[1],
				Timestamp: begin.Add(time.Duration(len(sent)) * time.Second),
				Headers:   []kgo.RecordHeader{{Key: "codec", Value: []byte{number}}, {Key: "null"}},
			})
		}
		// The records are sent as one batch. In a batch with one small record, compression would increase
		// the size, and the client would send the batch uncompressed.
		if err := client.ProduceSync(t.Context(), sent[len(sent)-3:]...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		client.Close()
	}

	checkRecords(t, consume(t, bootstrap, kgo.NewOffset().AtStart(), len(sent)), sent)
	checkRecords(t, consume(t, bootstrap, kgo.NewOffset().At(4), len(sent)-4), sent[4:])
	moment := begin.Add(7*time.Second - 500*time.Millisecond)
	checkRecords(t, consume(t, bootstrap, kgo.NewOffset().AfterMilli(moment.UnixMilli()), len(sent)-7),
		sent[7:])
	checkRecords(t, consume(t, bootstrap, kgo.NewOffset().AtEnd().Relative(-2), 2),
		sent[len(sent)-2:])
}

// TestFranzGoTransaction checks that a read_committed consumer reads the record of a committed
// transaction, but not the record of an aborted transaction.
func TestFranzGoTransaction(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, cluster, events)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.TransactionalID("smoke"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for value, end := range map[string]kgo.TransactionEndTry{"aborted": kgo.TryAbort,
		"committed": kgo.TryCommit} {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		record := &kgo.Record{Topic: "events", Value: []byte(value)}
		if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics("events"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	if got := consumer.PollFetches(ctx).Records(); len(got) != 1 ||
		string(got[0].Value) != "committed" {
		t.Errorf("got %d records %v, want the committed one", len(got), got)
	}
}

// value returns text that every codec can compress.
func value(number uint8) []byte {
	return []byte(strings.Repeat(fmt.Sprint("codec ", number, " "), 100))
}

// consume reads count records from the only partition of the topic events, starting at the position
// from.
func consume(t *testing.T, bootstrap []string, from kgo.Offset, count int) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"events": {0: from}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var read []*kgo.Record
	for len(read) < count {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		read = append(read, fetches.Records()...)
	}
	return read
}

func checkRecords(t *testing.T, got, want []*kgo.Record) {
	t.Helper()
	same := func(a, b *kgo.Record) bool {
		return a.Offset == b.Offset && a.Timestamp.Equal(b.Timestamp) &&
			bytes.Equal(a.Key, b.Key) && (a.Key == nil) == (b.Key == nil) &&
			bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil) &&
			len(a.Headers) == 2 && bytes.Equal(a.Headers[0].Value, b.Headers[0].Value) &&
			a.Headers[1].Value == nil &&
			a.Attrs.CompressionType() == b.Headers[0].Value[0] && a.ProducerID >= 0
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("%d records were read, which differ from the %d sent: %+v", len(got), len(want),
			got)
	}
}
