package handler

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
)

// inTransaction writes transactional records into a topic's log, as a transaction coordinator
// would. Offsets 0 and 5 are records without a transaction. Producer 1 writes offsets 1 and 3, and
// aborts them with the marker at offset 4. Producer 2 writes offset 2, and its transaction stays
// open.
func inTransaction(t *testing.T, b *broker, topic string) *logstore.Log {
	t.Helper()
	log := b.store.Log(logstore.PartitionID{Topic: topic})
	write := func(producer int64, sequence int32) {
		t.Helper()
		id := record.Identity{Transactional: true, ProducerID: producer, BaseSequence: sequence}
		_, err := log.AppendVerified(batchOf(t, compress.None, id, "v"),
			logstore.Verified{Transaction: true}, time.Now())
		must(t, err)
	}
	b.mustProduce(topic, "before")
	write(1, 0)
	write(2, 0)
	write(1, 1)
	_, err := log.AppendControl(logstore.EndTxn{ProducerID: 1}, time.Now())
	must(t, err)
	b.mustProduce(topic, "behind")
	return log
}

// TestQuirk7FetchOfCommittedRecords checks a fetch with read_committed. It must return only records
// below the last stable offset, and list the aborted transactions whose records the client must
// skip (KIP-98).
func TestQuirk7FetchOfCommittedRecords(t *testing.T) {
	for _, version := range []int16{4, 11, 12} {
		b := newBroker(t)
		b.topic("t", nil)
		must(t, b.apply())
		log := inTransaction(t, b, "t")
		fetch := func(offset int64, isolation int8) kmsg.FetchResponseTopicPartition {
			req := fetchRequestFor("t", offset)
			req.IsolationLevel = isolation
			return ask[*kmsg.FetchResponse](b, version, req).Topics[0].Partitions[0]
		}
		want := func(part kmsg.FetchResponseTopicPartition, end, stable int64, aborted int) {
			t.Helper()
			last := int64(-1)
			for rest := part.RecordBatches; len(rest) > 0; {
				var batch record.Batch
				batch, rest, _ = record.Next(rest)
				last = batch.LastOffset()
			}
			if last != end-1 || part.LastStableOffset != stable || part.HighWatermark < stable ||
				len(part.AbortedTransactions) != aborted {
				t.Errorf("version %d: end %d, last stable offset %d of %d, aborted %v; want %d, %d, %d",
					version, last+1, part.LastStableOffset,
					part.HighWatermark, part.AbortedTransactions, end, stable, aborted)
			}
		}
		want(fetch(0, 0), 6, 2, 0)
		want(fetch(0, 1), 2, 2, 1) // offset 1 is below the last stable offset, but aborted
		_, err := log.AppendControl(logstore.EndTxn{ProducerID: 2, Commit: true}, time.Now())
		must(t, err)
		b.mustProduce("t", "last") // advances the high watermark
		committed := fetch(0, 1)
		want(committed, 8, 8, 1)
		if a := committed.AbortedTransactions[0]; a.ProducerID != 1 || a.FirstOffset != 1 {
			t.Errorf("version %d: aborted %+v", version, a)
		}
		want(fetch(5, 1), 8, 8, 0)
	}
}

func TestQuirk8ListOffsetsOfCommittedRecords(t *testing.T) {
	b := newBroker(t)
	b.topic("t", nil)
	must(t, b.apply())
	inTransaction(t, b, "t")
	for isolation, want := range []int64{6, 2} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.IsolationLevel = int8(isolation)
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = "t"
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Timestamp, part.CurrentLeaderEpoch = -1, -1
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		if got := ask[*kmsg.ListOffsetsResponse](b, 6,
			req).Topics[0].Partitions[0]; got.Offset != want || got.ErrorCode != 0 {
			t.Errorf("isolation level %d: %+v, want %d", isolation, got, want)
		}
	}
}
