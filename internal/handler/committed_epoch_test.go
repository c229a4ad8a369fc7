package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
)

// TestCommittedEpochAboveThePartitionsIsLeftOut commits a leader epoch above the partition's leader
// epoch, which is 2. Such epochs occur in offsets that were copied from another cluster.
// OffsetFetch must return the epoch as unknown (-1), and the offset unchanged.
func TestCommittedEpochAboveThePartitionsIsLeftOut(t *testing.T) {
	everyVersion(t, api.KeyOffsetFetch, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b)
		for committed, want := range map[int32]int32{-1: -1, 0: 0, 1: 1, 2: 2, 3: -1, 900: -1} {
			if version < 5 {
				want = -1
			}
			b.commitEpoch(committed)
			if offset, epoch := b.fetchedEpoch(version); offset != 7 || epoch != want {
				t.Errorf("committed epoch %d: offset %d with epoch %d, want 7 with %d", committed,
					offset, epoch, want)
			}
		}
	})
}

// commitEpoch commits offset 7 with the given leader epoch in the first partition of tickets.
func (b *broker) commitEpoch(epoch int32) {
	b.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.RetentionTimeMillis = "group", -1, -1
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Offset, part.LeaderEpoch = 7, epoch
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "tickets",
		Partitions: []kmsg.OffsetCommitRequestTopicPartition{part}}}
	if code := ask[*kmsg.OffsetCommitResponse](b, 7,
		req).Topics[0].Partitions[0].ErrorCode; code != 0 {
		b.t.Fatalf("commit: error %d", code)
	}
}

// fetchedEpoch returns the committed offset and its leader epoch in the first partition of tickets.
func (b *broker) fetchedEpoch(version int16) (offset int64, epoch int32) {
	b.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = "group"
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "tickets", Partitions: []int32{0}}}
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "group", MemberEpoch: -1,
		Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "tickets",
			TopicID: b.image.Load().Topic("tickets").ID, Partitions: []int32{0}}}}}
	answer := ask[*kmsg.OffsetFetchResponse](b, version, req)
	if version < 8 {
		p := answer.Topics[0].Partitions[0]
		return p.Offset, p.LeaderEpoch
	}
	p := answer.Groups[0].Topics[0].Partitions[0]
	return p.Offset, p.LeaderEpoch
}
