package data

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/replica/session"
	"heartwood.dev/heartwood/internal/wire"
)

// Fetch (key 1), versions 4-18.
//
//	4   isolation level (KIP-98)
//	5   log start offset (KIP-107)
//	7   sessions (KIP-227)
//	9   leader epoch (KIP-320)
//	10  zstd (KIP-110)
//	11  rack, reads from followers (KIP-392)
//	12  flexible; last fetched epoch and diverging epoch (KIP-595)
//	13  topic ids (KIP-516)
//	15  replica state instead of replica id (KIP-903)
//	16  current leaders with errors (KIP-951)
//	17  directory id (KIP-853), ignored
//	18  the follower's high watermark (KIP-1166)
//
// Records are sent as file ranges, and only the other bytes are encoded (fetch_response.go).
// Brokers also replicate with this API. They use sessions, the replica state, and private tagged
// fields (docs/internals/replication.md).

const (
	// fetchWaitMax limits how long a fetch waits. It must be below 10 min, because wire.Server then
	// closes a connection on which the client sends nothing.
	fetchWaitMax = 5 * time.Minute
	// FetchBytesMax limits the size of the records in one response, in bytes (Kafka's
	// fetch.max.bytes).
	FetchBytesMax = 55 << 20
)

// FetchShape describes the fields of the request (api.Shape).
var FetchShape = api.Shape{
	api.Fixed(4).To(14),  // replica id
	api.Fixed(12),        // maximum wait, minimum bytes, maximum bytes
	api.Fixed(1),         // isolation level
	api.Fixed(8).From(7), // session id and epoch
	api.Array(
		api.Text().To(12), api.Fixed(16).From(13),
		api.Array(
			api.Fixed(4), api.Fixed(4).From(9), api.Fixed(8), api.Fixed(4).From(12), api.Fixed(8).From(5),
			api.Fixed(4),
		),
	),
	api.Array(api.Text().To(12), api.Fixed(16).From(13), api.PlainArray(api.Fixed(4))).From(7),
	// forgotten topics
	api.Text().From(11),
	api.Tagged(1, api.Fixed(12)), // replica state
}

// Fetch handles a Fetch request. It limits the sizes and the maximum wait in the request, and
// treats negative values as 0. It reads the tagged fields, which alias the frame, then releases the
// frame, and only then waits.
func (h *Handler) Fetch(ctx context.Context, from *wire.Request) (wire.Reply, error) {
	req := kmsg.NewPtrFetchRequest()
	if err := api.Decode(FetchShape, from, req); err != nil {
		return wire.Reply{}, err
	}
	answer := fetchAnswer{Outcome: h.Outcome(), image: h.Image(), replicas: h.Replicas,
		listener: from.Listener, request: req}
	want := replica.FetchRequest{
		BytesMin:      int(max(0, req.MinBytes)),
		BytesMax:      int(min(max(0, req.MaxBytes), FetchBytesMax)),
		Wait:          min(time.Duration(max(0, req.MaxWaitMillis))*time.Millisecond, fetchWaitMax),
		ReadCommitted: req.IsolationLevel == 1,
		Rack:          req.Rack,
		AnyReplica:    req.Version >= 11,
		Session:       session.ID{ID: req.SessionID, Epoch: req.SessionEpoch},
		TopicIDs:      req.Version >= 13,
	}
	if req.Version < 7 {
		want.Session = session.ID{Epoch: session.None}
	}
	switch {
	case req.Version >= 15 && req.ReplicaState.ID >= 0:
		if !h.isFollower(from, req.ReplicaState.ID) {
			// Kafka also returns this error, although the client lacks a permission on the cluster.
			answer.results = failedFetch(req, api.ErrTopicAuthorization)
			return encodeFetch(&answer), nil
		}
		want.Replica = &metadata.InSync{Broker: req.ReplicaState.ID, Epoch: req.ReplicaState.Epoch}
		want.Interrupt = from.NextRequest
	case req.Version < 15 && req.ReplicaID >= 0 && !h.isFollower(from, req.ReplicaID):
		answer.results = failedFetch(req, api.ErrTopicAuthorization)
		return encodeFetch(&answer), nil
	case req.Version < 15 && req.ReplicaID >= 0:
		answer.results = failedFetch(req,
			fmt.Errorf("%w: a follower must fetch with version 15 or above", api.ErrInvalidRequest))
		return encodeFetch(&answer), nil
	}
	if want.Replica == nil && hasFollowerTags(req) {
		answer.results = failedFetch(req, api.ErrTopicAuthorization)
		return encodeFetch(&answer), nil
	}
	api.MeterOf(ctx).LimitFetch(&want)
	denied := h.fetchPartitions(from, &answer, &want)
	answer.changedOnly = want.Replica != nil && omitsUnchanged(req)
	from.ReleaseBody()
	fetched, err := h.Replicas.FetchInSession(ctx, want)
	if err != nil {
		return fetchFailed(&answer, answer.Code(err)), nil
	}
	answer.session, answer.results = fetched.Session, fetched.Results
	answer.image = h.Image() // a leader may have changed during the wait
	h.withholdDenied(from, want.Replica != nil, answer.results)
	answer.results = append(answer.results, denied...)
	if req.Version < 10 {
		withholdZstd(answer.results)
	}
	return encodeFetch(&answer), nil
}

// fetchPartitions adds to want the partitions to fetch and the partitions to remove from the
// session. It does not add partitions that the client may not read, but returns them in denied with
// an error; the fetch then does not wait. In version 13 and above, topics are identified by id. A
// topic with an unknown id has an empty name, and fetching its partitions fails later.
func (h *Handler) fetchPartitions(from *wire.Request, answer *fetchAnswer,
	want *replica.FetchRequest) (denied []replica.FetchResult) {
	for i := range answer.request.Topics {
		requested := &answer.request.Topics[i]
		name := requested.Topic
		if want.TopicIDs {
			name, _ = api.TopicName(answer.image, requested.TopicID)
		}
		err := h.authorizeRead(from, want.Replica != nil, name)
		for j := range requested.Partitions {
			part := &requested.Partitions[j]
			if err != nil {
				result := unfetched(replica.PartitionID{Topic: name, Index: part.Partition}, err)
				result.Topic = requested.TopicID
				denied, want.Wait = append(denied, result), 0
				continue
			}
			want.Partitions = append(want.Partitions,
				fetchPartition(replica.PartitionID{Topic: name, Index: part.Partition},
					requested.TopicID, part))
		}
	}
	for i := range answer.request.ForgottenTopics {
		forgotten := &answer.request.ForgottenTopics[i]
		for _, index := range forgotten.Partitions {
			want.Forgotten = append(want.Forgotten,
				session.KeyOf(forgotten.TopicID, forgotten.Topic, index))
		}
	}
	return denied
}

// authorizeRead returns nil if the client may read a topic. A follower, which Fetch has already
// authorized on the cluster, may read every topic, and so may every other broker (RecordsCall). A
// topic with an empty name is not authorized here, because fetching it fails with an error for an
// unknown topic.
func (h *Handler) authorizeRead(from *wire.Request, follower bool, topic string) error {
	if follower || topic == "" || from.Session != nil && from.Session.Role == wire.RoleBroker {
		return nil
	}
	return h.Authorize(from, api.ReadTopic, topic)
}

// withholdDenied replaces results for topics that the client may not read with errors. Such results
// occur because a fetch session contains partitions of earlier requests, and because an ACL may be
// revoked during a long poll.
func (h *Handler) withholdDenied(from *wire.Request, follower bool, results []replica.FetchResult) {
	for i := range results {
		r := &results[i]
		err := h.authorizeRead(from, follower, r.ID.Topic)
		if err == nil {
			continue
		}
		if r.Data != nil {
			r.Data.Release()
		}
		topic := r.Topic
		*r = unfetched(r.ID, err)
		r.Topic = topic
	}
}

func fetchPartition(id replica.PartitionID, topic metadata.ID,
	part *kmsg.FetchRequestTopicPartition) replica.FetchPartition {
	want := replica.FetchPartition{
		ID: id, Topic: topic, Offset: part.FetchOffset,
		BytesMax:    int(min(max(0, part.PartitionMaxBytes), FetchBytesMax)),
		LeaderEpoch: part.CurrentLeaderEpoch, LastEpoch: part.LastFetchedEpoch,
		HighWater: part.HighWatermark, DurableEnd: part.FetchOffset,
		LogStart: part.LogStartOffset,
	}
	readFollowerTags(&part.UnknownTags, &want)
	return want
}

// unfetched returns the result for a partition that was not fetched because of an error.
func unfetched(id replica.PartitionID, err error) replica.FetchResult {
	return replica.FetchResult{
		ID: id, Err: err, LogStart: -1, HighWater: -1, Stable: -1, LogEnd: -1,
		PreferredReplica: metadata.NoBroker,
	}
}

// failedFetch returns results with the same error for all partitions in a request.
func failedFetch(req *kmsg.FetchRequest, err error) (results []replica.FetchResult) {
	for i := range req.Topics {
		for _, part := range req.Topics[i].Partitions {
			result := unfetched(
				replica.PartitionID{Topic: req.Topics[i].Topic, Index: part.Partition}, err)
			result.Topic = req.Topics[i].TopicID
			results = append(results, result)
		}
	}
	return results
}

// withholdZstd removes zstd batches from responses to clients that cannot read them (Fetch below
// version 10). A partition's result then contains the batches before the first zstd batch, or an
// error if there are none.
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

// bytesBeforeZstd returns the total size of the batches before the first zstd batch.
func bytesBeforeZstd(slice *logstore.Slice) (int, error) {
	header := make([]byte, record.HeaderBytes)
	for position := 0; position < slice.Length; {
		if n, err := slice.File.ReadAt(header, slice.Position+int64(position)); n < len(header) {
			return 0, err
		}
		if record.Batch(header).Codec() == compress.Zstd {
			return position, nil
		}
		size, err := record.PeekSize(header)
		if err != nil {
			return 0, err
		}
		position += size
	}
	return slice.Length, nil
}
