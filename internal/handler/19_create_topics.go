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

// adminWaitMax bounds how long a request may wait for the metadata, whatever its client allows.
const adminWaitMax = time.Minute

// createTopicsShape is the request's fields (see shape.go).
var createTopicsShape = shape{
	array(
		text(), fixed(6),
		array(fixed(4), plainArray(fixed(4))), // replica assignment
		array(text(), text()),                 // settings
	),
	fixed(5),
}

func (h *Handler) createTopics(ctx context.Context, req *kmsg.CreateTopicsRequest) wire.Reply {
	ctx, cancel := context.WithTimeout(ctx, adminWait(req.TimeoutMillis))
	defer cancel()
	response := kmsg.NewPtrCreateTopicsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	named := map[string]int{}
	for i := range req.Topics {
		named[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		asked := &req.Topics[i]
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = asked.Topic, -1, -1
		var made *metadata.Topic
		var err error
		if named[asked.Topic] > 1 {
			err = fmt.Errorf("%w: topic %q is named more than once", errInvalidRequest, asked.Topic)
		} else {
			made, err = h.createTopic(ctx, req, asked)
		}
		topic.ErrorCode, topic.ErrorMessage = result.code(err), message(err)
		if err == nil {
			describeCreated(&topic, made)
		}
		response.Topics = append(response.Topics, topic)
	}
	return reply(response, result)
}

func adminWait(millis int32) time.Duration {
	return min(time.Duration(max(0, millis))*time.Millisecond, adminWaitMax)
}

func (h *Handler) createTopic(ctx context.Context, req *kmsg.CreateTopicsRequest, asked *kmsg.CreateTopicsRequestTopic) (*metadata.Topic, error) {
	switch {
	case len(asked.ReplicaAssignment) > 0:
		return nil, fmt.Errorf("%w: replicas are placed by the operator; give a number of partitions and replicas", errReplicaAssignment)
	case asked.NumPartitions == -1 && req.Version < 4:
		return nil, fmt.Errorf("%w: -1 is taken from version 4 on", metadata.ErrInvalidPartitions)
	case asked.ReplicationFactor == -1 && req.Version < 4:
		return nil, fmt.Errorf("%w: -1 is taken from version 4 on", metadata.ErrInvalidReplication)
	}
	properties := make(map[string]string, len(asked.Configs))
	for _, config := range asked.Configs {
		if config.Value == nil {
			return nil, fmt.Errorf("%w: %s has a null value", metadata.ErrInvalidSettings, config.Name)
		}
		properties[config.Name] = *config.Value
	}
	return h.opts.Admin.CreateTopic(ctx, metadata.NewTopic{
		Name: asked.Topic, Partitions: asked.NumPartitions, Replicas: int32(asked.ReplicationFactor),
		Properties: properties, Validate: req.ValidateOnly,
	})
}

func describeCreated(answer *kmsg.CreateTopicsResponseTopic, topic *metadata.Topic) {
	answer.TopicID = topic.ID
	answer.NumPartitions = int32(len(topic.Partitions))
	if len(topic.Partitions) > 0 {
		answer.ReplicationFactor = int16(len(topic.Partitions[0].Replicas))
	}
	for _, property := range topic.Settings.Properties() {
		config := kmsg.NewCreateTopicsResponseTopicConfig()
		config.Name, config.Value, config.Source = property.Name, &property.Value, int8(topicSource(&property))
		answer.Configs = append(answer.Configs, config)
	}
}
