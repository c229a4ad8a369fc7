package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
)

// TestCommitsRevealNoTopics checks that a commit has the same error for an unknown topic as for a
// topic that the client may not read, and that the group is authorized before topics, as in Kafka.
func TestCommitsRevealNoTopics(t *testing.T) {
	b, a := withAuthorizer(t)
	for _, test := range []struct {
		denied api.RequiredOperation
		want   int16
	}{{api.ReadTopic, 29}, {api.ReadGroup, 30}} {
		a.deny = func(action api.Action) bool { return action.RequiredOperation == test.denied }
		for _, topic := range []string{"orders", "missing"} {
			answer := ask[*kmsg.OffsetCommitResponse](b, 9, commitRequestFor(topic))
			if got := answer.Topics[0].Partitions[0].ErrorCode; got != test.want {
				t.Errorf("OffsetCommit, topic %s: error %d, want %d", topic, got, test.want)
			}
			if got := b.commitInTransaction(topic); got != test.want {
				t.Errorf("TxnOffsetCommit, topic %s: error %d, want %d", topic, got, test.want)
			}
		}
	}
}

// commitInTransaction commits an offset in partition 0 of a topic. It returns the error code.
func (b *broker) commitInTransaction(topic string) int16 {
	b.t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Group, req.TransactionalID = "group", "txn"
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic,
		Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{}}}}
	return ask[*kmsg.TxnOffsetCommitResponse](b, 5, req).Topics[0].Partitions[0].ErrorCode
}
