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

// Brokers copy each other's logs by Fetch, with what Kafka's lacks in a tagged field that only they
// know: in a partition of the request what the follower vouches for, below which offset its
// tombstones are lonely, and below which it knows all to be; in the request itself, empty, that
// partitions without news may be left out; in a partition of the answer the leader's log end and
// log start with an error, and below which offset the tombstones of all replicas are lonely. A
// second tag in a partition of the request says for which assignment the follower's log was made.
// The peer that does not know a tag skips it.

// pullVersion is the version of Fetch that brokers use among themselves.
const pullVersion = 18

// pullTag is far from what Kafka numbers its tags with.
const pullTag = 0x4857

// assignmentTag is always there, also without a name: a peer that leaves it out is of an earlier
// version.
const (
	assignmentTag      = 0x4858
	assignmentBytesMax = 64
)

// lonelyTag, empty, is beside pullTag in a partition of the request and of the answer: it says that
// the offset there is of lonely tombstones. Earlier versions told in its place how far they had
// cleaned, garbage that they had left not counted, and do not write the tag; what they say counts
// as 0, so nothing goes before they are gone. What we say is less, and does no harm with them.
const lonelyTag = 0x4859

const (
	pullTagBytes   = 24 // request: safe, lonely, told
	pulledTagBytes = 24 // answer: log start, log end, lonely
)

// readPullTag takes in what a follower says of one partition.
func readPullTag(tags *kmsg.Tags, want *replica.FetchPartition) {
	want.ReplicaIncarnation = replica.AnyReplicaIncarnation
	lonely := false
	tags.Each(func(tag uint32, value []byte) {
		if tag == assignmentTag && len(value) <= assignmentBytesMax {
			want.ReplicaIncarnation = string(value)
		}
		if tag == pullTag && len(value) == pullTagBytes {
			want.DurableEnd = int64(binary.BigEndian.Uint64(value))
			want.TombstoneClean = int64(binary.BigEndian.Uint64(value[8:]))
			want.ReplicasTombstoneClean = int64(binary.BigEndian.Uint64(value[16:]))
		}
		lonely = lonely || tag == lonelyTag
	})
	if !lonely {
		want.TombstoneClean = 0
	}
}

// isBrief tells whether partitions without news may be left out of the answer.
func isBrief(req *kmsg.FetchRequest) (brief bool) {
	req.UnknownTags.Each(func(tag uint32, _ []byte) { brief = brief || tag == pullTag })
	return brief
}

// FollowerFetchCall is the request of a follower's fetch.
func FollowerFetchCall(pull *replica.FollowerFetch) wire.Call {
	return wire.Call{Key: keyFetch, Version: pullVersion, Flexible: true,
		Append: func(out []byte) []byte { return appendPull(out, pull) }}
}

// InterruptCall is a request that costs next to nothing, and whose coming ends the wait of the
// follower's fetch before it.
func InterruptCall() wire.Call { return wire.Call{Key: keyAPIVersions} }

// appendPull appends the body of a follower's fetch. It is written by hand: the first of a session
// names all of a leader's partitions, and nothing of them is to be allocated.
func appendPull(out []byte, pull *replica.FollowerFetch) []byte {
	out = kbin.AppendInt32(out, int32(pull.Wait.Milliseconds()))
	out = kbin.AppendInt32(out, 1) // fewest bytes
	out = kbin.AppendInt32(out, int32(pull.BytesMax))
	out = append(out, 0) // isolation level: all
	out = kbin.AppendInt32(out, pull.Session.ID)
	out = kbin.AppendInt32(out, pull.Session.Epoch)
	out = kbin.AppendCompactArrayLen(out, runs(pull.Partitions))
	for rest := pull.Partitions; len(rest) > 0; {
		n := run(rest)
		out = append(out, rest[0].Topic[:]...)
		out = kbin.AppendCompactArrayLen(out, n)
		for i := range rest[:n] {
			out = appendPullPartition(out, &rest[i])
		}
		out = append(out, 0)
		rest = rest[n:]
	}
	out = appendForgotten(out, pull.Forgotten)
	out = kbin.AppendCompactString(out, "") // rack
	out = append(out, 2, 1, 13)             // two tags; 1: replica state
	out = kbin.AppendInt32(out, pull.Replica.Broker)
	out = kbin.AppendInt64(out, pull.Replica.Epoch)
	out = append(out, 0)
	out = kbin.AppendUvarint(out, pullTag)
	return append(out, 0)
}

func appendPullPartition(out []byte, at *replica.FollowerPartition) []byte {
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
		out = kbin.AppendUvarint(out, pullTag)
		out = append(out, pullTagBytes)
		out = kbin.AppendInt64(out, at.DurableEnd)
		out = kbin.AppendInt64(out, at.TombstoneClean)
		out = kbin.AppendInt64(out, at.ReplicasTombstoneClean)
	}
	out = kbin.AppendUvarint(out, assignmentTag)
	out = kbin.AppendUvarint(out, uint32(len(at.ReplicaIncarnation)))
	out = append(out, at.ReplicaIncarnation...)
	if private {
		out = append(kbin.AppendUvarint(out, lonelyTag), 0)
	}
	return out
}

// appendForgotten appends what of the session is not asked for any more, each partition by itself:
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

// run is how many partitions at the front are of one topic; runs, how many such groups there are.
func run(partitions []replica.FollowerPartition) int {
	n := 1
	for n < len(partitions) && partitions[n].Topic == partitions[0].Topic {
		n++
	}
	return n
}

func runs(partitions []replica.FollowerPartition) (n int) {
	for ; len(partitions) > 0; n++ {
		partitions = partitions[run(partitions):]
	}
	return n
}

// errPeer is an error that a peer answered with and that has no meaning of its own here.
var errPeer = errors.New("the peer refused")

// DecodeFollowerFetch decodes the answer to a follower's fetch. Records alias body. topics names the topics
// that were asked for; a partition of any other is left out.
func DecodeFollowerFetch(body []byte, topics map[metadata.ID]string) (replica.FollowerResponse,
	error) {
	var got replica.FollowerResponse
	if err := fetchAnswerShape.check(pullVersion, true, body); err != nil {
		return got, err
	}
	answer := kmsg.FetchResponse{Version: pullVersion}
	if err := answer.ReadFrom(body); err != nil {
		return got, err
	}
	if answer.ErrorCode != 0 {
		return got, peerError(answer.ErrorCode)
	}
	got.Session = answer.SessionID
	for i := range answer.Topics {
		name, asked := topics[answer.Topics[i].TopicID]
		if !asked {
			continue
		}
		for j := range answer.Topics[i].Partitions {
			got.Partitions = append(got.Partitions, pulled(name, &answer.Topics[i].Partitions[j]))
		}
	}
	return got, nil
}

func pulled(topic string, part *kmsg.FetchResponseTopicPartition) replica.FollowerResult {
	got := replica.FollowerResult{
		ID: replica.PartitionID{Topic: topic, Index: part.Partition}, HighWater: part.HighWatermark,
		LogStart: part.LogStartOffset,
		LogEnd:   -1, DivergingEpoch: part.DivergingEpoch.Epoch,
		DivergingEnd: part.DivergingEpoch.EndOffset, Records: part.RecordBatches,
	}
	if part.ErrorCode != 0 {
		got.Err = peerError(part.ErrorCode)
	}
	lonely := false
	part.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == pullTag && len(value) == pulledTagBytes {
			got.LogStart = int64(binary.BigEndian.Uint64(value))
			got.LogEnd = int64(binary.BigEndian.Uint64(value[8:]))
			got.ReplicasTombstoneClean = int64(binary.BigEndian.Uint64(value[16:]))
		}
		lonely = lonely || tag == lonelyTag
	})
	if !lonely {
		got.ReplicasTombstoneClean = 0
	}
	return got
}

// peerError turns a code back into the error that a follower branches on.
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
	return fmt.Errorf("%w: error %d", errPeer, code)
}

// fetchAnswerShape is the answer's fields, for what a peer sends is bytes from outside, too (see
// shape.go).
var fetchAnswerShape = shape{
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
