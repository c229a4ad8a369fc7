package kafka_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestWaitsAreTheAgesOfNextRecords checks that the lag in time is the age of the next record that a
// consumer of the group would get. It must be 0 without lag, and unknown if there is no such
// record.
func TestWaitsAreTheAgesOfNextRecords(t *testing.T) {
	bootstrap := start(t)
	client := connect(t, bootstrap)
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID("waits"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	admin := kadm.NewClient(producer)
	if _, err := admin.CreateTopic(t.Context(), 5, 1, nil, "timed"); err != nil {
		t.Fatal(err)
	}
	// The partitions contain the following records. Partitions 0 and 1: records 0 to 9, one second
	// apart. Partition 2: only aborted records. Partition 3: aborted records and then one committed
	// record. Partition 4: as partition 0, without the first five records.
	write := func(outcome kgo.TransactionEndTry, partition int32, from, n int) {
		t.Helper()
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			record := &kgo.Record{Topic: "timed", Partition: partition, Value: []byte("v"),
				Timestamp: begin.Add(time.Duration(from+i) * time.Second)}
			if err := producer.ProduceSync(t.Context(), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := producer.EndTransaction(t.Context(), outcome); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []int32{0, 1, 4} {
		write(kgo.TryCommit, p, 0, 10)
	}
	for _, p := range []int32{2, 3} {
		write(kgo.TryAbort, p, 0, 3)
	}
	write(kgo.TryCommit, 3, 30, 1)
	offsets := kadm.Offsets{}
	for p, committed := range []int64{4, 11, 0, 1, 2} {
		offsets.AddOffset("timed", int32(p), committed, -1)
	}
	if err := admin.CommitAllOffsets(t.Context(), "readers", offsets); err != nil {
		t.Fatal(err)
	}
	deleted := kadm.Offsets{}
	deleted.AddOffset("timed", 4, 5, -1)
	if _, err := admin.DeleteRecords(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}

	groups, _, err := client.Groups(t.Context(), "readers")
	if err != nil || len(groups) != 1 || len(groups[0].Offsets) != 5 {
		t.Fatalf("got %+v, error %v", groups, err)
	}
	client.AddWaits(t.Context(), groups)
	now := begin.Add(time.Minute)
	const unknown = -1
	for p, want := range []int{60 - 4, 0, unknown, 30, 60 - 5} {
		wait, known := groups[0].Offsets[p].Wait(now)
		if known != (want != unknown) || known && wait != time.Duration(want)*time.Second {
			t.Errorf("partition %d: got %v, known %t, want %d s", p, wait, known, want)
		}
	}
	if longest, complete := groups[0].Wait(now); longest != 56*time.Second || complete {
		t.Errorf("the group: got %v, complete %t", longest, complete)
	}
	if n := groups[0].Below(); n != 1 {
		t.Errorf("got %d partitions below the start, want 1", n)
	}
}

// TestWaitsAreBounded checks that only the partitions with the largest lag are read if many
// partitions have lag.
func TestWaitsAreBounded(t *testing.T) {
	const partitions = 120
	bootstrap := start(t)
	produce(t, bootstrap, "wide", partitions, 2, func(i int) string { return fmt.Sprint(i) })
	client := connect(t, bootstrap)
	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	offsets := kadm.Offsets{}
	for p := range int32(partitions) {
		offsets.AddOffset("wide", p, int64(min(1, p%12)), -1) // a twelfth of the partitions has lag 2
	}
	if err := kadm.NewClient(producer).CommitAllOffsets(t.Context(), "readers",
		offsets); err != nil {
		t.Fatal(err)
	}
	for range 20 { // on a busy machine, not all of them may be read in time
		groups, _, err := client.Groups(t.Context(), "readers")
		if err != nil {
			t.Fatal(err)
		}
		client.AddWaits(t.Context(), groups)
		known, large := 0, 0
		for i := range groups[0].Offsets {
			groupOffset := &groups[0].Offsets[i]
			if _, ok := groupOffset.Wait(time.Now()); ok {
				known++
				if lag, _ := groupOffset.Lag(); lag == 2 {
					large++
				}
			}
		}
		if known > 100 {
			t.Fatalf("the next record was read in %d partitions", known)
		}
		if known == 100 && large == partitions/12 {
			return
		}
	}
	t.Error("the next record was never read in 100 partitions, with all that have the largest lag")
}
