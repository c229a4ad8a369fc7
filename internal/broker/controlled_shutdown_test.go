package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestClientsLearnTheNewLeaderBeforeAConnectionCloses checks that a client that rarely sends
// requests to a leader receives NOT_LEADER_OR_FOLLOWER before a controlled shutdown closes its
// connection.
func TestClientsLearnTheNewLeaderBeforeAConnectionCloses(t *testing.T) {
	c := newTrio(t)
	c.await("all replicas to be in sync", c.inSync(3))
	leader := c.metadata.Image().Topic("rep").Partitions[0].Leader
	client, err := kgo.NewClient(c.seeds())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := leaderError(t.Context(), client.Broker(int(leader))); err != nil {
		t.Fatalf("before the shutdown: %v", err)
	}
	noticed := make(chan struct{}) // closed when the broker may stop serving
	c.brokers[leader].shutdown.notice = func(context.Context) { <-noticed }
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = c.stops[leader]()
	}()
	defer func() { close(noticed); <-stopped }()
	for {
		// The interval between requests is much longer than the change of the leader takes.
		time.Sleep(100 * time.Millisecond)
		switch err := leaderError(t.Context(), client.Broker(int(leader))); {
		case errors.Is(err, kerr.NotLeaderForPartition):
			return
		case err != nil:
			t.Fatalf("the broker closed the connection before it named another leader: %v", err)
		}
	}
}

// leaderError requests the end offset of partition 0 from a broker, and returns the error in the
// response. Only the leader responds without an error.
func leaderError(ctx context.Context, broker *kgo.Broker) error {
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Timestamp, partition.CurrentLeaderEpoch = -1, -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "rep"
	topic.Partitions = append(topic.Partitions, partition)
	request := kmsg.NewPtrListOffsetsRequest()
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, broker)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
}
