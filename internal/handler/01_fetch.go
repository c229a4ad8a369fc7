package handler

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// Fetch (key 1), versions 4-12.
//
//	4   isolation level (KIP-98)     5   log start offset (KIP-107)     7   sessions (KIP-227)
//	9   leader epoch (KIP-320)       10  zstd (KIP-110)                 11  rack (KIP-392)
//	12  flexible
//
// A session is never opened: a client that asks for one is told session 0, a legal refusal, and sends whole requests. The data
// are file ranges; only what stands around them is encoded (fetch_response.go).

const (
	// fetchWaitMax is below the idle time of a connection, so that a long poll does not look like one.
	fetchWaitMax = 5 * time.Minute
	// fetchBytesMax bounds one answer, as Kafka's fetch.max.bytes does.
	fetchBytesMax = 55 << 20
)

// fetchShape is the request's fields (see shape.go).
var fetchShape = shape{
	fixed(16), // replica, longest wait, fewest bytes, most bytes
	fixed(1),  // isolation level
	fixed(8).from(7),
	array(
		text(),
		array(
			fixed(4), fixed(4).from(9), fixed(8), fixed(4).from(12), fixed(8).from(5), fixed(4),
		),
	),
	array(text(), plainArray(fixed(4))).from(7), // forgotten topics
	text().from(11),
	tagged(1, fixed(12)), // replica state
}

// fetch bounds what a client asks for, fetches, and encodes. Negative sizes and waits count as 0.
func (h *Handler) fetch(ctx context.Context, req *kmsg.FetchRequest) wire.Reply {
	result := outcome{handler: h}
	// Epoch 0 asks for a new session and -1 for none: both are whole requests, whatever the id. Any other continues one.
	if req.SessionEpoch != 0 && req.SessionEpoch != -1 {
		return fetchFailed(req.Version, result.code(errSessionNotFound), &result)
	}
	if req.ReplicaID >= 0 {
		return h.fetchRefused(req, fmt.Errorf("%w: followers do not fetch this way", errInvalidRequest))
	}
	want := replica.FetchRequest{
		BytesMin:  int(max(0, req.MinBytes)),
		BytesMax:  int(min(max(0, req.MaxBytes), fetchBytesMax)),
		Wait:      min(time.Duration(max(0, req.MaxWaitMillis))*time.Millisecond, fetchWaitMax),
		Committed: req.IsolationLevel == 1,
	}
	for i := range req.Topics {
		topic := &req.Topics[i]
		for _, part := range topic.Partitions {
			want.Partitions = append(want.Partitions, replica.FetchPartition{
				ID:          replica.PartitionID{Topic: topic.Topic, Index: part.Partition},
				Offset:      part.FetchOffset,
				BytesMax:    int(min(max(0, part.PartitionMaxBytes), fetchBytesMax)),
				LeaderEpoch: part.CurrentLeaderEpoch,
			})
		}
	}
	results := h.opts.Replicas.Fetch(ctx, want)
	if req.Version < 10 {
		withholdZstd(results)
	}
	return encodeFetch(req, results, &result)
}

// fetchRefused answers every partition with an error.
func (h *Handler) fetchRefused(req *kmsg.FetchRequest, err error) wire.Reply {
	var results []replica.FetchResult
	for i := range req.Topics {
		for _, part := range req.Topics[i].Partitions {
			id := replica.PartitionID{Topic: req.Topics[i].Topic, Index: part.Partition}
			results = append(results, replica.FetchResult{ID: id, Err: err})
		}
	}
	result := outcome{handler: h}
	return encodeFetch(req, results, &result)
}

// withholdZstd keeps zstd batches from clients that cannot read them (fetch below version 10): they get the batches before the
// first such one, or, if it is the first, an error.
func withholdZstd(results []replica.FetchResult) {
	for i := range results {
		r := &results[i]
		if r.Err != nil || r.Data == nil || r.Data.Length == 0 {
			continue
		}
		readable, err := bytesBeforeZstd(r.Data)
		switch {
		case err != nil:
			r.Err = fmt.Errorf("%w: %w", logstore.ErrStorage, err)
		case readable == 0:
			r.Err = fmt.Errorf("%w: zstd needs fetch version 10", record.ErrUnsupportedCodec)
		default:
			r.Data.Length = readable
			continue
		}
		r.Data.Release()
		r.Data = nil
	}
}

// bytesBeforeZstd walks the batches of a slice and returns the size of those before the first that zstd compressed.
func bytesBeforeZstd(slice *logstore.Slice) (int, error) {
	header := make([]byte, record.HeaderBytes)
	for at := 0; at < slice.Length; {
		if n, err := slice.File.ReadAt(header, slice.Position+int64(at)); n < len(header) {
			return 0, err
		}
		if record.Batch(header).Codec() == compress.Zstd {
			return at, nil
		}
		size, err := record.PeekSize(header)
		if err != nil {
			return 0, err
		}
		at += size
	}
	return slice.Length, nil
}
