package handler

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// CreateTopics (key 19), versions 2-7: each makes a Topic resource, nothing else.
//
//	4  partitions and replicas -1: the cluster's default (KIP-464)     5  flexible, settings in the answer (KIP-525)
//	7  topic id (KIP-516)
//
// Replicas are not assigned by hand: the operator places them.

const (
	// adminWaitMax bounds how long a request may wait for the metadata, whatever its client allows.
	adminWaitMax = time.Minute
	// shownWaitMax bounds how long a change that is made waits to be seen. It is made all the same.
	shownWaitMax = 5 * time.Second
)

// createTopicsShape is the request's fields (see shape.go).
var createTopicsShape = shape{
	array(
		text(), fixed(6),
		array(fixed(4), plainArray(fixed(4))), // replica assignment
		array(text(), text()),                 // settings
	),
	fixed(5),
}

// createTopics makes topic by topic; one that fails does not undo the others. A name that comes
// twice is refused each time, as nobody can say which of the two is meant.
func (h *Handler) createTopics(ctx context.Context, raw *wire.Request,
	req *kmsg.CreateTopicsRequest) wire.Reply {
	ctx, cancel := context.WithTimeout(ctx, adminWait(req.TimeoutMillis))
	defer cancel()
	response := kmsg.NewPtrCreateTopicsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	var made []metadata.ID
	named := map[string]int{}
	for i := range req.Topics {
		named[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		asked := &req.Topics[i]
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = asked.Topic, -1, -1
		var created *metadata.Topic
		var err error
		if named[asked.Topic] > 1 {
			err = fmt.Errorf("%w: topic %q is named more than once", errInvalidRequest, asked.Topic)
		} else {
			if err = h.authorizeCreate(raw, asked.Topic); err == nil {
				err = h.writable()
			}
			if err == nil {
				created, err = h.createTopic(ctx, req, asked)
			}
		}
		topic.ErrorCode, topic.ErrorMessage = result.code(err), message(err)
		if err == nil {
			describeCreated(&topic, created,
				h.authorize(raw, describeTopicConfigs, created.Name))
			made = append(made, created.ID)
		}
		response.Topics = append(response.Topics, topic)
	}
	if len(made) > 0 && !req.ValidateOnly {
		h.awaitShown(ctx, func(img *metadata.Image) bool { return allLed(img, made) })
	}
	return reply(response, result)
}

// awaitShown waits until this broker sees a change that it has just made: who asks it next, about
// the topic made or deleted, must not be told of the time before. Clients do ask at once, and take
// an unknown topic for an error.
func (h *Handler) awaitShown(ctx context.Context, enough func(*metadata.Image) bool) {
	ctx, cancel := context.WithTimeout(ctx, shownWaitMax)
	defer cancel()
	h.opts.Await(ctx, enough)
}

// allLed tells whether an image has all topics, with a live leader for each of their partitions.
func allLed(img *metadata.Image, topics []metadata.ID) bool {
	for _, id := range topics {
		topic := img.TopicByID(id)
		if topic == nil {
			return false
		}
		for _, p := range topic.Partitions {
			if _, up := img.Broker(p.Leader); !up {
				return false
			}
		}
	}
	return true
}

// adminWait is a client's timeout, 0 to adminWaitMax.
func adminWait(millis int32) time.Duration {
	return min(time.Duration(max(0, millis))*time.Millisecond, adminWaitMax)
}

// createTopic checks what hangs on the version of the request; what hangs on the cluster is checked
// by Admin.
func (h *Handler) createTopic(ctx context.Context, req *kmsg.CreateTopicsRequest,
	asked *kmsg.CreateTopicsRequestTopic) (*metadata.Topic, error) {
	switch {
	case len(asked.ReplicaAssignment) > 0:
		return nil, fmt.Errorf(
			"%w: replicas are placed by the operator; give a number of partitions and replicas",
			errReplicaAssignment,
		)
	case asked.NumPartitions == -1 && req.Version < 4:
		return nil, fmt.Errorf("%w: -1 is taken from version 4 on", metadata.ErrInvalidPartitions)
	case asked.ReplicationFactor == -1 && req.Version < 4:
		return nil, fmt.Errorf("%w: -1 is taken from version 4 on", metadata.ErrInvalidReplication)
	}
	properties := make(map[string]string, len(asked.Configs))
	for _, config := range asked.Configs {
		if config.Value == nil {
			return nil, fmt.Errorf("%w: %s has a null value", metadata.ErrInvalidSettings,
				config.Name)
		}
		properties[config.Name] = *config.Value
	}
	return h.opts.Admin.CreateTopic(ctx, metadata.NewTopic{
		Name: asked.Topic, Partitions: asked.NumPartitions,
		Replicas:   int32(asked.ReplicationFactor),
		Properties: properties, Validate: req.ValidateOnly,
	})
}

// describeCreated fills in what was made, with the settings that are in effect, defaults included
// (KIP-525).
func describeCreated(answer *kmsg.CreateTopicsResponseTopic, topic *metadata.Topic,
	configsDenied error) {
	answer.TopicID = topic.ID
	if configsDenied != nil {
		answer.ConfigErrorCode = 29 // TOPIC_AUTHORIZATION_FAILED
		return
	}
	answer.NumPartitions = int32(len(topic.Partitions))
	if len(topic.Partitions) > 0 {
		answer.ReplicationFactor = int16(len(topic.Partitions[0].Replicas))
	}
	for _, property := range topic.Settings.Properties() {
		config := kmsg.NewCreateTopicsResponseTopicConfig()
		config.Name, config.Value, config.Source = property.Name, &property.Value,
			int8(topicSource(&property))
		answer.Configs = append(answer.Configs, config)
	}
}
