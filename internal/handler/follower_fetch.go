package handler

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/replica/session"
	"heartwood.dev/heartwood/internal/wire"
)

// Brokers replicate with Fetch. Fields that Kafka's schema lacks are sent as tagged fields, which
// only Heartwood brokers know and any other peer skips:
//
//	followerTag in a partition of the request: the follower's durable end offset, its tombstone-clean
//	    offset, and the replicated cleaning progress that it knows
//	followerTag in the request, empty: leave out partitions that have not changed
//	followerTag in a partition of the response: log start offset and log end offset, which Kafka
//	    omits with an error, and the replicated cleaning progress
//	incarnationTag in a partition of the request: the replica incarnation id of the follower's log
// tombstoneCleanTag beside followerTag in a partition of the request: see tombstoneCleanTag

// followerFetchVersion is the version of Fetch that brokers use among themselves.
const followerFetchVersion = 18

// followerTag is far above the tag numbers of Kafka.
const followerTag = 0x4857

// incarnationTag is always present, even if the id is empty: only peers of earlier versions omit
// it.
const (
	incarnationTag      = 0x4858
	incarnationBytesMax = 64
)

// tombstoneCleanTag is empty. It marks the offset in followerTag as a tombstone-clean offset.
// Earlier versions do not send this tag. They sent the end of their clean section in place of the
// offset, without regard to the garbage that remained in the section. An offset without this tag is
// treated as 0, so that no tombstone is removed before all replicas are upgraded. Earlier versions
// read a tombstone-clean offset as the end of a clean section, which is safe, because it is never
// larger.
const tombstoneCleanTag = 0x4859

const (
	requestTagBytes  = 24 // durable end, tombstone-clean offset, replicated cleaning progress
	responseTagBytes = 24 // log start, log end, replicated cleaning progress
)

// readFollowerTags reads the private fields of one partition of a follower's request.
func readFollowerTags(tags *kmsg.Tags, want *replica.FetchPartition) {
	want.ReplicaIncarnation = replica.AnyReplicaIncarnation
	tombstoneClean := false
	tags.Each(func(tag uint32, value []byte) {
		if tag == incarnationTag && len(value) <= incarnationBytesMax {
			want.ReplicaIncarnation = string(value)
		}
		if tag == followerTag && len(value) == requestTagBytes {
			want.DurableEnd = int64(binary.BigEndian.Uint64(value))
			want.TombstoneClean = int64(binary.BigEndian.Uint64(value[8:]))
			want.ReplicasTombstoneClean = int64(binary.BigEndian.Uint64(value[16:]))
		}
		tombstoneClean = tombstoneClean || tag == tombstoneCleanTag
	})
	if !tombstoneClean {
		want.TombstoneClean = 0
	}
}

// omitsUnchanged reports whether the response may leave out partitions that have not changed.
func omitsUnchanged(req *kmsg.FetchRequest) (omits bool) {
	req.UnknownTags.Each(func(tag uint32, _ []byte) { omits = omits || tag == followerTag })
	return omits
}

// FollowerFetchCall returns the request of a follower's fetch.
func FollowerFetchCall(fetch *replica.FollowerFetch) wire.Call {
	return wire.Call{Key: keyFetch, Version: followerFetchVersion, Flexible: true,
		Append: func(out []byte) []byte { return appendFollowerFetch(out, fetch) }}
}

// InterruptCall returns a cheap request: its arrival ends the wait of the follower's fetch before
// it.
func InterruptCall() wire.Call { return wire.Call{Key: keyAPIVersions} }

// appendFollowerFetch appends the body of a follower's fetch. It is written by hand because the
// first fetch of a session names all partitions of a leader: nothing is allocated for them.
func appendFollowerFetch(out []byte, fetch *replica.FollowerFetch) []byte {
	out = kbin.AppendInt32(out, int32(fetch.Wait.Milliseconds()))
	out = kbin.AppendInt32(out, 1) // least bytes
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
	out = append(out, 2, 1, 13)             // two tags; 1: replica state
	out = kbin.AppendInt32(out, fetch.Replica.Broker)
	out = kbin.AppendInt64(out, fetch.Replica.Epoch)
	out = append(out, 0)
	out = kbin.AppendUvarint(out, followerTag)
	return append(out, 0)
}

func appendFollowerPartition(out []byte, at *replica.FollowerPartition) []byte {
	out = kbin.AppendInt32(out, at.ID.Index)
	out = kbin.AppendInt32(out, at.LeaderEpoch)
	out = kbin.AppendInt64(out, at.Offset)
	out = kbin.AppendInt32(out, at.LastEpoch)
	out = kbin.AppendInt64(out, at.LogStart)
	out = kbin.AppendInt32(out, int32(at.BytesMax))
	private := at.DurableEnd != at.Offset || at.TombstoneClean != 0 ||
		at.ReplicasTombstoneClean != 0
	if private {
		out = append(out, 4)
	} else {
		out = append(out, 2)
	}
	out = append(out, 1, 8)
	out = kbin.AppendInt64(out, at.HighWater)
	if private {
		out = kbin.AppendUvarint(out, followerTag)
		out = append(out, requestTagBytes)
		out = kbin.AppendInt64(out, at.DurableEnd)
		out = kbin.AppendInt64(out, at.TombstoneClean)
		out = kbin.AppendInt64(out, at.ReplicasTombstoneClean)
	}
	out = kbin.AppendUvarint(out, incarnationTag)
	out = kbin.AppendUvarint(out, uint32(len(at.ReplicaIncarnation)))
	out = append(out, at.ReplicaIncarnation...)
	if private {
		out = append(kbin.AppendUvarint(out, tombstoneCleanTag), 0)
	}
	return out
}

// appendForgotten appends the partitions to remove from the session, each as a topic of its own:
// there are few.
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

// topicPrefix returns the length of the first run of partitions of the same topic; topicPrefixes
// returns the number of runs.
func topicPrefix(partitions []replica.FollowerPartition) int {
	n := 1
	for n < len(partitions) && partitions[n].Topic == partitions[0].Topic {
		n++
	}
	return n
}

func topicPrefixes(partitions []replica.FollowerPartition) (n int) {
	for ; len(partitions) > 0; n++ {
		partitions = partitions[topicPrefix(partitions):]
	}
	return n
}

// errPeer wraps the codes of a response that followers do not distinguish.
var errPeer = errors.New("fetch rejected by the leader")

// DecodeFollowerFetch decodes the response to a follower's fetch. Records alias body. topics has
// the names of the requested topics; partitions of other topics are left out.
func DecodeFollowerFetch(body []byte, topics map[metadata.ID]string) (replica.FollowerResponse,
	error) {
	var got replica.FollowerResponse
	if err := fetchResponseShape.check(followerFetchVersion, true, body); err != nil {
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
	tombstoneClean := false
	part.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == followerTag && len(value) == responseTagBytes {
			got.LogStart = int64(binary.BigEndian.Uint64(value))
			got.LogEnd = int64(binary.BigEndian.Uint64(value[8:]))
			got.ReplicasTombstoneClean = int64(binary.BigEndian.Uint64(value[16:]))
		}
		tombstoneClean = tombstoneClean || tag == tombstoneCleanTag
	})
	if !tombstoneClean {
		got.ReplicasTombstoneClean = 0
	}
	return got
}

// peerError returns the error of a code that followers distinguish, or an error that wraps errPeer
// for any other code.
func peerError(code int16) error {
	for _, err := range []error{
		logstore.ErrOffsetOutOfRange, replica.ErrNotLeader, replica.ErrFencedLeaderEpoch,
		replica.ErrUnknownLeaderEpoch,
		replica.ErrStaleReplica, replica.ErrUnknownPartition, replica.ErrInconsistentTopicID,
		logstore.ErrStorage, session.ErrNotFound,
		session.ErrEpoch,
	} {
		for i := range kafkaErrors {
			if kafkaErrors[i].code == code && errors.Is(err, kafkaErrors[i].err) {
				return err
			}
		}
	}
	return fmt.Errorf("%w: error code %d", errPeer, code)
}

// fetchResponseShape describes the fields of the response (shape.go): a peer's bytes are untrusted,
// too.
var fetchResponseShape = shape{
	fixed(4), fixed(2), fixed(4),
	array(
		fixed(16),
		array(
			fixed(4), fixed(2), fixed(8), fixed(8), fixed(8), array(fixed(8), fixed(8)), fixed(4),
			text(),
			tagged(0, fixed(12)), tagged(1, fixed(8)), tagged(2, fixed(12)),
		),
	),
}
