package crash

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/process"
)

// everyOffset fetches at every offset of the cleaned log, with a limit of one batch. Even if the
// record at the offset was removed, the response must contain the next record. Otherwise a consumer
// would fetch the same offset forever (invariants I43 and I44 of
// docs/internals/cleaner-invariants.md, KAFKA-15388).
func (r *run) everyOffset() {
	r.t.Helper()
	ctx := process.WithDeadline(r.t)
	admin := kadm.NewClient(r.client)
	starts, err := admin.ListStartOffsets(ctx, "tickets")
	if err != nil {
		r.t.Fatal(err)
	}
	ends, err := admin.ListEndOffsets(ctx, "tickets")
	if err != nil {
		r.t.Fatal(err)
	}
	topics, err := admin.ListTopics(ctx, "tickets")
	if err != nil {
		r.t.Fatal(err)
	}
	start, _ := starts.Lookup("tickets", 0)
	end, _ := ends.Lookup("tickets", 0)
	for offset := start.Offset; offset < end.Offset; {
		next := r.fetchAt(topics["tickets"].ID, offset)
		if next < offset {
			r.t.Fatalf("fetch at offset %d of [%d, %d) returns no record at or above it", offset,
				start.Offset, end.Offset)
		}
		// If the next record is more than 64 offsets away, skip all but the last 32 offsets before it.
		// Checking a part of a long gap is enough, because all fetches in the gap take the same path.
		if offset++; next-offset > 64 {
			offset = next - 32
		}
	}
}

// fetchAt fetches at an offset. It returns the offset of the first record in the response at or
// above this offset, or -1.
func (r *run) fetchAt(topic kadm.TopicID, offset int64) int64 {
	r.t.Helper()
	// process.WithDeadline would keep a context until the test ends, for each of thousands of
	// requests.
	ctx, cancel := context.WithTimeout(r.t.Context(), await.Limit)
	defer cancel()
	request := kmsg.NewPtrFetchRequest()
	request.ReplicaID = -1
	request.MaxBytes, request.MinBytes = 1<<20, 1
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = offset, 1, -1
	request.Topics = []kmsg.FetchRequestTopic{{
		// The client sends the latest version of the request, which contains the topic's id instead of
		// its name.
		Topic: "tickets", TopicID: topic,
		Partitions: []kmsg.FetchRequestTopicPartition{part},
	}}
	response, err := request.RequestWith(ctx, r.client.Broker(0))
	if err != nil {
		r.t.Fatalf("fetch at offset %d: %v", offset, err)
	}
	found := response.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		r.t.Fatalf("fetch at offset %d: %v", offset, err)
	}
	stop := errors.New("found")
	first := int64(-1)
	for rest := found.RecordBatches; len(rest) > 0 && first < 0; {
		batch, following, err := record.Next(rest)
		if err != nil {
			break // the last batch in a response may be truncated at the size limit
		}
		if err := batch.CheckCRC(); err != nil {
			r.t.Fatalf("fetch at offset %d: %v", offset, err)
		}
		err = batch.Records(64<<20, func(one *record.Record) error {
			if one.Offset < offset {
				return nil
			}
			first = one.Offset
			return stop
		})
		if err != nil && !errors.Is(err, stop) {
			r.t.Fatalf("fetch at offset %d: %v", offset, err)
		}
		rest = following
	}
	return first
}
