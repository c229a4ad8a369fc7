package coordinator

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
)

// ConsumerHeartbeat answers a member of a group of the consumer protocol (KIP-848). It never waits
// for other members.
func (r *Runtime) ConsumerHeartbeat(ctx context.Context, h *consumer.Heartbeat) (consumer.Answer,
	error) {
	s, err := r.of(h.Group, true) // an empty id is refused with the rest that makes no sense
	if err != nil {
		return consumer.Answer{}, err
	}
	topics := r.topics()
	return call(ctx, s, func(now time.Time) (consumer.Answer, group.Output, error) {
		return s.state.ConsumerHeartbeat(now, h, topics)
	})
}

// DescribeConsumer returns a group of the consumer protocol.
func (r *Runtime) DescribeConsumer(ctx context.Context, groupID string) (consumer.Description,
	error) {
	s, err := r.of(groupID, false)
	if err != nil {
		return consumer.Description{}, err
	}
	return call(ctx, s, func(time.Time) (consumer.Description, group.Output, error) {
		d, err := s.state.DescribeConsumer(groupID)
		return d, group.Output{}, err
	})
}

// shownTopics is an image's topics as groups see them. It is made once for each image: a group
// looks at its topics again when it is another.
type shownTopics struct {
	image  *metadata.Image
	topics *consumer.Topics
}

func (r *Runtime) topics() *consumer.Topics {
	image := r.opts.Image()
	if shown := r.shown.Load(); shown != nil && shown.image == image {
		return shown.topics
	}
	topics := &consumer.Topics{
		ByName: func(name string) (consumer.Topic, bool) {
			if topic := image.Topic(name); topic != nil {
				return show(topic), true
			}
			return consumer.Topic{}, false
		},
		All: func(yield func(consumer.Topic) bool) {
			for _, topic := range image.Topics {
				if !yield(show(topic)) {
					return
				}
			}
		},
	}
	r.shown.Store(&shownTopics{image, topics})
	return topics
}

func show(topic *metadata.Topic) consumer.Topic {
	return consumer.Topic{ID: topic.ID, Name: topic.Name, Partitions: len(topic.Partitions)}
}
