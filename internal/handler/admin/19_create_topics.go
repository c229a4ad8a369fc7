package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// CreateTopics (key 19), versions 2-7: creates one Topic resource per topic.
//
//	4  clients may send -1 for partitions and replicas: the cluster's default (KIP-464)
//	5  flexible, settings in the response (KIP-525)
//	6  the error THROTTLING_QUOTA_EXCEEDED (KIP-599)
//	7  topic id (KIP-516)
//
// The broker accepts -1 in every version, as Kafka does, because kafkajs sends it in version 3.

const (
	// imageWaitMax limits how long a request waits until a completed change appears in the metadata
	// image. After that, the response is sent anyway.
	imageWaitMax = 5 * time.Second
)

// CreateTopicsShape describes the fields of the request (api.Shape).
var CreateTopicsShape = api.Shape{
	api.Array(
		api.Text(), api.Fixed(6),
		api.Array(api.Fixed(4), api.PlainArray(api.Fixed(4))), // replica assignment
		api.Array(api.Text(), api.Text()),                     // settings
	),
	api.Fixed(5),
}

// CreateTopics creates the topics one after the other. If one creation fails, the topics created
// before remain. If a request contains a name twice, both topics are rejected, because they may
// differ.
func (h *Handler) CreateTopics(ctx context.Context, raw *wire.Request,
	req *kmsg.CreateTopicsRequest) wire.Reply {
	quotas := api.MeterOf(ctx)
	ctx, cancel := api.WithTimeout(ctx, api.AdminWait(req.TimeoutMillis))
	defer cancel()
	response := kmsg.NewPtrCreateTopicsResponse()
	response.Version = req.Version
	result := h.Outcome()
	var ids []metadata.ID
	named := map[string]int{}
	for i := range req.Topics {
		named[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		requested := &req.Topics[i]
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = requested.Topic, -1, -1
		var created *metadata.Topic
		var err error
		if named[requested.Topic] > 1 {
			err = fmt.Errorf("%w: topic %q is named more than once", api.ErrInvalidRequest,
				requested.Topic)
		} else {
			if err = h.AuthorizeCreate(raw, requested.Topic); err == nil {
				err = api.Writable(h.Image())
			}
			if err == nil {
				created, err = h.createTopic(ctx, quotas, req, requested)
			}
		}
		topic.ErrorCode, topic.ErrorMessage = result.Code(err), api.Message(err)
		if err == nil {
			describeCreated(&topic, created, h.Image(),
				h.Authorize(raw, api.DescribeTopicConfigs, created.Name))
			ids = append(ids, created.ID)
		}
		response.Topics = append(response.Topics, topic)
	}
	if len(ids) > 0 && !req.ValidateOnly {
		h.awaitImage(ctx, func(img *metadata.Image) bool { return allLed(img, ids) })
	}
	return api.Reply(response, result)
}

// awaitImage waits, after a change, until enough returns true for this broker's metadata image.
// Clients use a new topic immediately, and would otherwise get UNKNOWN_TOPIC_OR_PARTITION.
func (h *Handler) awaitImage(ctx context.Context, enough func(*metadata.Image) bool) {
	ctx, cancel := api.WithTimeout(ctx, imageWaitMax)
	defer cancel()
	h.Await(ctx, enough)
}

// allLed reports whether an image contains all given topics, and all their partitions have a leader
// that is up.
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

// createTopic checks the rules that depend on the request's version, and creates the topic.
// Admin.CreateTopic checks the other rules.
func (h *Handler) createTopic(ctx context.Context, quotas *api.Meter, req *kmsg.CreateTopicsRequest,
	requested *kmsg.CreateTopicsRequestTopic) (*metadata.Topic, error) {
	assignment, err := manualAssignment(requested)
	if err != nil {
		return nil, err
	}
	properties := make(map[string]string, len(requested.Configs))
	for _, config := range requested.Configs {
		if config.Value == nil {
			return nil, fmt.Errorf("%w: %s has a null value", metadata.ErrInvalidSettings,
				config.Name)
		}
		properties[config.Name] = *config.Value
	}
	topic := metadata.NewTopic{
		Name: requested.Topic, Partitions: requested.NumPartitions,
		Replicas:   int32(requested.ReplicationFactor),
		Properties: properties, Validate: req.ValidateOnly,
	}
	if assignment != nil {
		topic.Assignment, topic.Partitions = assignment, int32(len(assignment))
		topic.Replicas = int32(len(assignment[0]))
	}
	return h.createWithin(ctx, quotas, req.Version >= 6, topic)
}

// createWithin creates a topic within the client's quota. If strict is set, it fails if the client
// has exceeded the quota.
func (h *Handler) createWithin(ctx context.Context, quotas *api.Meter, strict bool,
	topic metadata.NewTopic) (created *metadata.Topic, err error) {
	if topic.Validate {
		return h.Topics.CreateTopic(ctx, topic)
	}
	charged := max(1, int(topic.Partitions)) // -1: the default number; corrected below
	if err := quotas.Mutate(charged, strict); err != nil {
		return nil, err
	}
	if created, err = h.Topics.CreateTopic(ctx, topic); err != nil {
		quotas.Adjust(-charged, strict)
		return nil, err
	}
	quotas.Adjust(len(created.Partitions)-charged, strict)
	return created, nil
}

// manualAssignment returns the replicas that a request assigns to a topic's partitions, or nil if
// the cluster chooses them. The partitions may be in any order, but must be consecutive from 0. As
// in Kafka, a request with an assignment must set the numbers of partitions and replicas to -1.
// Admin.CreateTopic checks the replicas.
func manualAssignment(requested *kmsg.CreateTopicsRequestTopic) ([][]int32, error) {
	count := len(requested.ReplicaAssignment)
	switch {
	case count == 0:
		return nil, nil
	case requested.ReplicationFactor != -1:
		return nil, fmt.Errorf(
			"%w: with a replica assignment the replication factor must be -1, not %d",
			api.ErrInvalidRequest, requested.ReplicationFactor)
	case requested.NumPartitions != -1:
		return nil, fmt.Errorf(
			"%w: with a replica assignment the number of partitions must be -1, not %d",
			api.ErrInvalidRequest, requested.NumPartitions)
	}
	assignment := make([][]int32, count)
	for _, assigned := range requested.ReplicaAssignment {
		switch partition := assigned.Partition; {
		case partition < 0 || int(partition) >= count:
			return nil, fmt.Errorf("%w: %d partitions are assigned, so partition %d must not be: "+
				"the partitions must be consecutive from 0", metadata.ErrInvalidAssignment, count,
				partition)
		case assignment[partition] != nil:
			return nil, fmt.Errorf("%w: partition %d is assigned more than once",
				metadata.ErrInvalidAssignment, partition)
		case len(assigned.Replicas) == 0:
			return nil, fmt.Errorf("%w: partition %d has no replicas",
				metadata.ErrInvalidAssignment, partition)
		default:
			assignment[partition] = assigned.Replicas
		}
	}
	return assignment, nil
}

// describeCreated sets the fields that describe the created topic, and its settings including
// defaults (KIP-525). It omits the settings if the client may not describe them.
func describeCreated(answer *kmsg.CreateTopicsResponseTopic, topic *metadata.Topic,
	img *metadata.Image, configsDenied error) {
	answer.TopicID = topic.ID
	if configsDenied != nil {
		answer.ConfigErrorCode = 29 // TOPIC_AUTHORIZATION_FAILED
		return
	}
	answer.NumPartitions = int32(len(topic.Partitions))
	if len(topic.Partitions) > 0 {
		answer.ReplicationFactor = int16(len(topic.Partitions[0].Replicas))
	}
	for _, c := range topicConfigs(topic, img) {
		config := kmsg.NewCreateTopicsResponseTopicConfig()
		config.Name, config.Value, config.Source = c.Name, &c.Value, int8(c.source)
		answer.Configs = append(answer.Configs, config)
	}
}
