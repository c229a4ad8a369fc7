package data

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/replica/session"
	"heartwood.dev/heartwood/internal/wire"
)

// Brokers replicate with Fetch. They add the following tagged fields, which are not part of Kafka's
// schema. Other software skips them.
//
//	followerTag in the request, empty: the response may omit partitions that have not changed
//	followerTag in a partition of the request: the follower's durable end offset and tombstone-clean
//	    offset, the last replicated cleaning progress that the follower has received, and its log's
//	    replica incarnation id
//	followerTag in a partition of the response: the leader's log start offset and log end offset,
//	    also if the partition has an error, and the replicated cleaning progress

// followerFetchVersion is the Fetch version that followers use.
const followerFetchVersion = 18

// followerTag is far above the tag numbers that Kafka uses, so Kafka is unlikely to define the same
// number soon.
const followerTag = 0x4857

const (
	// size of the durable end offset, the tombstone-clean offset and the replicated cleaning progress;
	// the incarnation id follows them
	requestOffsetsBytes = 24
	incarnationBytesMax = 64
	responseTagBytes    = 24 // log start offset, log end offset, replicated cleaning progress
)

// readFollowerTags reads the private fields for one partition in a follower's request into want.
func readFollowerTags(tags *kmsg.Tags, want *replica.FetchPartition) {
	tags.Each(func(tag uint32, value []byte) {
		if tag == followerTag && requestOffsetsBytes <= len(value) &&
			len(value) <= requestOffsetsBytes+incarnationBytesMax {
			want.DurableEnd = int64(binary.BigEndian.Uint64(value))
			want.TombstoneClean = int64(binary.BigEndian.Uint64(value[8:]))
			want.ReplicasTombstoneClean = int64(binary.BigEndian.Uint64(value[16:]))
			want.ReplicaIncarnation = string(value[requestOffsetsBytes:])
		}
	})
}

// isFollower reports whether a client may fetch as the follower with the given id. Kafka only
// checks that the client may perform ClusterAction, and does not check the id. Here, once all
// brokers have certificates, a broker's certificate must contain the id (CVE-2018-1288).
func (h *Handler) isFollower(req *wire.Request, id int32) bool {
	if s := req.Session; s != nil && s.Role == wire.RoleBroker {
		if s.Broker == id {
			return true
		}
		h.AuditDenied(req, api.ClusterAction, api.ClusterName)
		return false
	}
	if h.PlainPeers != nil {
		if !h.PlainPeers(req.Listener) {
			h.AuditDenied(req, api.ClusterAction, api.ClusterName)
			return false
		}
		return true
	}
	return h.Authorize(req, api.ClusterAction, api.ClusterName) == nil
}

// hasFollowerTags reports whether a request contains private fields of followers.
func hasFollowerTags(req *kmsg.FetchRequest) bool {
	if omitsUnchanged(req) {
		return true
	}
	found := false
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			req.Topics[i].Partitions[j].UnknownTags.Each(func(tag uint32, _ []byte) {
				found = found || tag == followerTag
			})
		}
	}
	return found
}

// omitsUnchanged reports whether a request permits a response without the partitions that have not
// changed.
func omitsUnchanged(req *kmsg.FetchRequest) (omits bool) {
	req.UnknownTags.Each(func(tag uint32, _ []byte) { omits = omits || tag == followerTag })
	return omits
}

// FollowerFetchCall returns the Fetch request that a follower sends to a leader.
func FollowerFetchCall(fetch *replica.FollowerFetch) wire.Call {
	return wire.Call{Key: api.KeyFetch, Version: followerFetchVersion, Flexible: true,
		Append: func(out []byte) []byte { return appendFollowerFetch(out, fetch) }}
}

// InterruptCall returns a request that needs little work (ApiVersions). When it arrives while a
// fetch on the same connection waits, the leader responds to the fetch immediately.
func InterruptCall() wire.Call { return wire.Call{Key: api.KeyAPIVersions} }

// appendFollowerFetch appends the body of a follower's fetch. kmsg is not used, because it would
// allocate memory for each partition, and the first fetch of a session contains all partitions of
// the leader.
func appendFollowerFetch(out []byte, fetch *replica.FollowerFetch) []byte {
	out = kbin.AppendInt32(out, int32(fetch.Wait.Milliseconds()))
	out = kbin.AppendInt32(out, 1) // minimum number of bytes
	out = kbin.AppendInt32(out, int32(fetch.BytesMax))
	out = append(out, 0) // isolation level: read_uncommitted
	out = kbin.AppendInt32(out, fetch.Session.ID)
	out = kbin.AppendInt32(out, fetch.Session.Epoch)
	out = kbin.AppendCompactArrayLen(out, topicPrefixes(fetch.Partitions))
	for rest := fetch.Partitions; len(rest) > 0; {
		n := topicPrefix(rest)
		out = append(out, rest[0].Topic[:]...)
		out = kbin.AppendCompactArrayLen(out, n)
		for i := range rest[:n] {
			out = appendFollowerPartition(out, &rest[i])
		}
		out = append(out, 0)
		rest = rest[n:]
	}
	out = appendForgotten(out, fetch.Forgotten)
	out = kbin.AppendCompactString(out, "") // rack
	// Two tags follow. The first has number 1 (replica state) and 13 bytes.
	out = append(out, 2, 1, 13)
	out = kbin.AppendInt32(out, fetch.Replica.Broker)
	out = kbin.AppendInt64(out, fetch.Replica.Epoch)
	out = append(out, 0)
	out = kbin.AppendUvarint(out, followerTag)
	return append(out, 0)
}

func appendFollowerPartition(out []byte, partition *replica.FollowerPartition) []byte {
	out = kbin.AppendInt32(out, partition.ID.Index)
	out = kbin.AppendInt32(out, partition.LeaderEpoch)
	out = kbin.AppendInt64(out, partition.Offset)
	out = kbin.AppendInt32(out, partition.LastEpoch)
	out = kbin.AppendInt64(out, partition.LogStart)
	out = kbin.AppendInt32(out, int32(partition.BytesMax))
	// Two tags follow. The first has number 1 (high watermark) and 8 bytes.
	out = append(out, 2, 1, 8)
	out = kbin.AppendInt64(out, partition.HighWater)
	out = kbin.AppendUvarint(out, followerTag)
	out = kbin.AppendUvarint(out, requestOffsetsBytes+uint32(len(partition.ReplicaIncarnation)))
	out = kbin.AppendInt64(out, partition.DurableEnd)
	out = kbin.AppendInt64(out, partition.TombstoneClean)
	out = kbin.AppendInt64(out, partition.ReplicasTombstoneClean)
	return append(out, partition.ReplicaIncarnation...)
}

// appendForgotten appends the partitions to remove from the session. It encodes each partition as a
// separate topic, because there are few.
func appendForgotten(out []byte, forgotten []session.Key) []byte {
	out = kbin.AppendCompactArrayLen(out, len(forgotten))
	for i := range forgotten {
		out = append(out, forgotten[i].Topic[:]...)
		out = kbin.AppendCompactArrayLen(out, 1)
		out = kbin.AppendInt32(out, forgotten[i].Index)
		out = append(out, 0)
	}
	return out
}

// topicPrefix returns the number of leading partitions that belong to the same topic.
func topicPrefix(partitions []replica.FollowerPartition) int {
	n := 1
	for n < len(partitions) && partitions[n].Topic == partitions[0].Topic {
		n++
	}
	return n
}

// topicPrefixes returns the number of runs of adjacent partitions with the same topic.
func topicPrefixes(partitions []replica.FollowerPartition) (n int) {
	for ; len(partitions) > 0; n++ {
		partitions = partitions[topicPrefix(partitions):]
	}
	return n
}

// errPeer is the error for all codes that followers do not distinguish.
var errPeer = errors.New("fetch rejected by the leader")

// DecodeFollowerFetch decodes the response to a follower's fetch. The records in the result alias
// body. topics contains the names of the requested topics; other topics are omitted.
func DecodeFollowerFetch(body []byte, topics map[metadata.ID]string) (replica.FollowerResponse,
	error) {
	var got replica.FollowerResponse
	if err := fetchResponseShape.Check(followerFetchVersion, true, body); err != nil {
		return got, err
	}
	answer := kmsg.FetchResponse{Version: followerFetchVersion}
	if err := answer.ReadFrom(body); err != nil {
		return got, err
	}
	if answer.ErrorCode != 0 {
		return got, peerError(answer.ErrorCode)
	}
	got.Session = answer.SessionID
	for i := range answer.Topics {
		name, requested := topics[answer.Topics[i].TopicID]
		if !requested {
			continue
		}
		for j := range answer.Topics[i].Partitions {
			got.Partitions = append(got.Partitions,
				followerResult(name, &answer.Topics[i].Partitions[j]))
		}
	}
	return got, nil
}

func followerResult(topic string, part *kmsg.FetchResponseTopicPartition) replica.FollowerResult {
	got := replica.FollowerResult{
		ID: replica.PartitionID{Topic: topic, Index: part.Partition}, HighWater: part.HighWatermark,
		LogStart: part.LogStartOffset,
		LogEnd:   -1, DivergingEpoch: part.DivergingEpoch.Epoch,
		DivergingEnd: part.DivergingEpoch.EndOffset, Records: part.RecordBatches,
	}
	if part.ErrorCode != 0 {
		got.Err = peerError(part.ErrorCode)
	}
	part.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == followerTag && len(value) == responseTagBytes {
			got.LogStart = int64(binary.BigEndian.Uint64(value))
			got.LogEnd = int64(binary.BigEndian.Uint64(value[8:]))
			got.ReplicasTombstoneClean = int64(binary.BigEndian.Uint64(value[16:]))
		}
	})
	return got
}

// peerError returns the error for an error code. If followers do not distinguish the code, the
// error wraps errPeer.
func peerError(code int16) error {
	for _, err := range []error{
		logstore.ErrOffsetOutOfRange, replica.ErrNotLeader, replica.ErrFencedLeaderEpoch,
		replica.ErrUnknownLeaderEpoch,
		replica.ErrStaleReplica, replica.ErrUnknownPartition, replica.ErrInconsistentTopicID,
		logstore.ErrStorage, session.ErrNotFound,
		session.ErrEpoch,
	} {
		if api.HasCode(err, code) {
			return err
		}
	}
	return fmt.Errorf("%w: error code %d", errPeer, code)
}

// fetchResponseShape describes the fields of the response (api.Shape), because bytes from another
// broker are untrusted too.
var fetchResponseShape = api.Shape{
	api.Fixed(4), api.Fixed(2), api.Fixed(4),
	api.Array(
		api.Fixed(16),
		api.Array(
			api.Fixed(4), api.Fixed(2), api.Fixed(8), api.Fixed(8), api.Fixed(8), api.Array(api.Fixed(8),
				api.Fixed(8)), api.Fixed(4),
			api.Text(),
			api.Tagged(0, api.Fixed(12)), api.Tagged(1, api.Fixed(8)), api.Tagged(2, api.Fixed(12)),
		),
	),
}
