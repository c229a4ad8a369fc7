package kafka_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/test/kit/await"
)

// follow opens a tail that is closed when the test ends.
func follow(t *testing.T, client *kafka.Client, query kafka.TailQuery) *kafka.Tail {
	t.Helper()
	tail, err := client.Tail(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tail.Close)
	return tail
}

// steps runs steps of a tail until they have read or skipped the given number of offsets, and
// returns the sum of their results. A step may fail while a partition has no leader.
func steps(t *testing.T, tail *kafka.Tail, offsets int64) (sum kafka.TailStep) {
	t.Helper()
	await.For(t, func() string {
		if sum.Looked+sum.Skipped >= offsets {
			return ""
		}
		step, err := tail.Next(t.Context())
		if len(step.Records) > kafka.TailRecords {
			t.Fatalf("a step returned %d records", len(step.Records))
		}
		sum.Records = append(sum.Records, step.Records...)
		sum.Looked += step.Looked
		sum.Found += step.Found
		sum.Skipped += step.Skipped
		return fmt.Sprintf("got %d looked, %d skipped, want %d offsets: %v", sum.Looked,
			sum.Skipped, offsets, err)
	})
	if sum.Looked+sum.Skipped > offsets {
		t.Fatalf("got %d looked, %d skipped of %d offsets", sum.Looked, sum.Skipped, offsets)
	}
	return sum
}

// add appends n records to each of the topic's partitions.
func add(t *testing.T, bootstrap, topic string, partitions, n int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for p := range partitions {
		for i := range n {
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(p),
				Key: fmt.Append(nil, "key-", i%7), Value: fmt.Append(nil, "added ", i)})
		}
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// TestTailReturnsEachRecordOnce checks that a tail returns each record appended after it was opened
// exactly once, and that a second tail can continue at the position of the first one.
func TestTailReturnsEachRecordOnce(t *testing.T) {
	const partitions = 3
	bootstrap := start(t)
	produce(t, bootstrap, "all", partitions, 10, func(i int) string { return fmt.Sprint(i) })
	client := connect(t, bootstrap)
	tail := follow(t, client, kafka.TailQuery{Topic: "all"})
	if _, err := tail.Next(t.Context()); err != nil { // sets the start positions
		t.Fatal(err)
	}
	filtered := follow(t, client, kafka.TailQuery{Topic: "all", Partitions: []int32{1},
		From: tail.Position(), Key: []byte("key-6"), Value: []byte("added")})
	seen := map[[2]int64]bool{}
	for round := range 3 {
		add(t, bootstrap, "all", partitions, 9)
		for _, r := range steps(t, tail, 9*partitions).Records {
			key := [2]int64{int64(r.Partition), r.Offset}
			if seen[key] || r.Offset < 10 {
				t.Errorf("got record %v twice, or from before the begin", key)
			}
			seen[key] = true
		}
		if want := 9 * partitions * (round + 1); len(seen) != want {
			t.Errorf("got %d records, want %d", len(seen), want)
		}
		if round == 1 { // a second tail continues
			tail = follow(t, client, kafka.TailQuery{Topic: "all", From: tail.Position()})
		}
	}
	found := steps(t, filtered, 27)
	if found.Found != 3 || len(found.Records) != 3 || found.Records[0].Offset != 16 {
		t.Errorf("with a filter: got %+v", found)
	}
}

// TestTailIsBounded checks that a step returns only the newest records if there are more than it
// may read, and counts the others. With a filter, a step must read all records within the byte
// limit.
func TestTailIsBounded(t *testing.T) {
	const records = 5000
	bootstrap := start(t)
	produce(t, bootstrap, "much", 1, 1, func(int) string { return "first" })
	client := connect(t, bootstrap)
	begin := map[int32]int64{0: 1}
	tail := follow(t, client, kafka.TailQuery{Topic: "much", From: begin})
	filtered := follow(t, client, kafka.TailQuery{Topic: "much", From: begin,
		Value: []byte("added 7")})
	add(t, bootstrap, "much", 1, records)
	sum := steps(t, tail, records)
	if last := sum.Records[len(sum.Records)-1]; last.Offset != records || sum.Skipped == 0 ||
		sum.Found != sum.Looked {
		t.Errorf("got %d looked, %d skipped, %d found, the last record is at %d", sum.Looked,
			sum.Skipped, sum.Found, last.Offset)
	}
	found := steps(t, filtered, records)
	want := 0
	for i := range records {
		if fmt.Sprint(i)[0] == '7' {
			want++
		}
	}
	if found.Skipped != 0 || found.Found != int64(want) {
		t.Errorf("with a filter: got %d found, %d skipped, want %d", found.Found, found.Skipped,
			want)
	}
}

// TestTailContinuesInARecreatedTopic checks that the tail of a topic that is deleted and created
// again returns the records of the new topic from the start.
func TestTailContinuesInARecreatedTopic(t *testing.T) {
	bootstrap := start(t)
	produce(t, bootstrap, "again", 1, 10, func(i int) string { return fmt.Sprint(i) })
	client := connect(t, bootstrap)
	tail := follow(t, client, kafka.TailQuery{Topic: "again"})
	if _, err := tail.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := kadm.NewClient(admin).DeleteTopic(t.Context(), "again"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the topic is unknown after its deletion", func() bool {
		_, err = tail.Next(t.Context())
		return kafka.Unknown(err)
	})
	produce(t, bootstrap, "again", 1, 3, func(i int) string { return fmt.Sprint("new ", i) })
	if got := steps(t, tail, 3).Records; len(got) != 3 || string(got[0].Value) != "new 0" {
		t.Errorf("got %v", got)
	}
}

// TestTailsAreLimited checks that the number of open tails is limited, and that closing one permits
// another.
func TestTailsAreLimited(t *testing.T) {
	bootstrap := start(t)
	produce(t, bootstrap, "one", 1, 1, func(int) string { return "x" })
	client := connect(t, bootstrap)
	for _, query := range []kafka.TailQuery{{Topic: "unknown"},
		{Topic: "one", Partitions: []int32{9}}} {
		if _, err := client.Tail(t.Context(), query); !kafka.Unknown(err) {
			t.Errorf("%+v: got error %v", query, err)
		}
	}
	var open []*kafka.Tail
	for {
		tail, err := client.Tail(t.Context(), kafka.TailQuery{Topic: "one"})
		if errors.Is(err, kafka.ErrTails) {
			break
		}
		if open = append(open, tail); err != nil || len(open) > 100 {
			t.Fatalf("%d tails: %v", len(open), err)
		}
	}
	open[0].Close()
	open = open[1:]
	tail, err := client.Tail(t.Context(), kafka.TailQuery{Topic: "one"})
	if err != nil {
		t.Fatalf("after a tail was closed: %v", err)
	}
	for _, opened := range append(open, tail) {
		opened.Close()
	}
}
