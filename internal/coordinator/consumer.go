package coordinator

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/metadata"
)

// ConsumerHeartbeat handles a heartbeat from a member of the consumer protocol (KIP-848). It does
// not wait for other members' heartbeats.
func (g *Groups) ConsumerHeartbeat(ctx context.Context, h *consumer.Heartbeat) (consumer.Answer,
	error) {
	s, err := g.shard(h.Group, true) // Heartbeat.Check will reject an empty group id
	if err != nil {
		return consumer.Answer{}, err
	}
	topics := g.currentTopics()
	return runtime.Call(ctx, s,
		func(now time.Time, s *groupShard) (consumer.Answer, group.Output, error) {
			return s.ConsumerHeartbeat(now, h, topics)
		})
}

// DescribeConsumer returns the description of a group that uses the consumer protocol.
func (g *Groups) DescribeConsumer(ctx context.Context, groupID string) (consumer.Description,
	error) {
	s, err := g.shard(groupID, false)
	if err != nil {
		return consumer.Description{}, err
	}
	return query(ctx, s, func(s *groupShard) (consumer.Description, error) {
		return s.DescribeConsumer(groupID)
	})
}

// imageTopics contains the topics of one metadata image in the form of a consumer.Topics. There is
// only one imageTopics per image, because groups compare the addresses of consumer.Topics to detect
// a new image.
type imageTopics struct {
	image  *metadata.Image
	topics *consumer.Topics
}

func (g *Groups) currentTopics() *consumer.Topics {
	image := g.opts.Image()
	if cached := g.topics.Load(); cached != nil && cached.image == image {
		return cached.topics
	}
	topics := &consumer.Topics{
		ByName: func(name string) (consumer.Topic, bool) {
			if topic := image.Topic(name); topic != nil {
				return consumerTopic(topic), true
			}
			return consumer.Topic{}, false
		},
		All: func(yield func(consumer.Topic) bool) {
			for _, topic := range image.Topics {
				if !yield(consumerTopic(topic)) {
					return
				}
			}
		},
	}
	g.topics.Store(&imageTopics{image, topics})
	return topics
}

func consumerTopic(topic *metadata.Topic) consumer.Topic {
	return consumer.Topic{ID: topic.ID, Name: topic.Name, Partitions: len(topic.Partitions)}
}
