package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// Metadata (key 3), versions 0-13.
//
//	1   controller, racks, null = all topics
//	2   cluster id
//	5   offline replicas
//	7   leader epoch
//	8   authorized operations (KIP-430)
//	9   flexible
//	10  topic ids (KIP-516)
//	12  topics by id
//	13  top-level error (KIP-1102)
//
// A requested topic that does not exist is created, if the request allows it and the LogCluster
// allows both auto-creation (autoCreateTopics) and changes by admin requests (adminAPI).

// MetadataShape describes the fields of the request (api.Shape).
var MetadataShape = api.Shape{api.Array(api.Fixed(16).From(10), api.Text()), api.Fixed(1).From(4),
	api.Fixed(1).From(8).To(10), api.Fixed(1).From(8)}

// Metadata handles a Metadata request. It uses one metadata image for the whole response, so
// brokers and leaders are consistent.
func (h *Handler) Metadata(ctx context.Context, raw *wire.Request,
	req *kmsg.MetadataRequest) wire.Reply {
	h.autoCreate(ctx, raw, req)
	img := h.Image()
	response := kmsg.NewPtrMetadataResponse()
	response.Version = req.Version
	response.ClusterID = &img.ClusterID
	response.ControllerID = controller(img, raw.Listener)
	response.AuthorizedOperations = api.OperationsOmitted
	if req.IncludeClusterAuthorizedOperations {
		response.AuthorizedOperations = h.AuthorizedOperations(raw, api.ResourceCluster,
			api.ClusterName)
	}
	for _, b := range api.Nodes(img, raw.Listener) {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = b.ID, b.Host, b.Port, b.NullableRack()
		response.Brokers = append(response.Brokers, broker)
	}
	result := h.Outcome()
	for _, topic := range h.requestedTopics(img, raw, req) {
		topic.answer.ErrorCode = result.Code(topic.err)
		if topic.err == nil {
			view := api.View{Image: img, Listener: raw.Listener, ListenerError: req.Version >= 6}
			fillTopic(&topic.answer, view, topic.found, &result)
			if req.IncludeTopicAuthorizedOperations {
				topic.answer.AuthorizedOperations = h.AuthorizedOperations(raw, api.ResourceTopic,
					topic.found.Name)
			}
		}
		response.Topics = append(response.Topics, topic.answer)
	}
	return api.Reply(response, result)
}

// autoCreate creates the requested topics that do not exist, with the cluster's defaults, and waits
// until they can be used. It does nothing if the request does not allow auto-creation; requests
// below version 4 always allow it. If the cluster does not allow auto-creation, it only logs which
// setting would allow it. The response contains UNKNOWN_TOPIC_OR_PARTITION for a topic that cannot
// be created.
func (h *Handler) autoCreate(ctx context.Context, raw *wire.Request,
	req *kmsg.MetadataRequest) {
	if req.Version >= 4 && !req.AllowAutoTopicCreation {
		return
	}
	img := h.Image()
	missing := h.creatable(img, raw, req)
	if len(missing) == 0 {
		return
	}
	if !img.Policy.AutoCreate || img.Policy.ReadOnly {
		h.logMissing(raw, img.Policy, missing)
		return
	}
	quotas := api.MeterOf(ctx)
	ctx, cancel := api.WithTimeout(ctx, api.AdminWaitMax)
	defer cancel()
	var created []string
	for _, name := range missing {
		_, err := h.createWithin(ctx, quotas, false,
			metadata.NewTopic{Name: name, Partitions: -1, Replicas: -1})
		switch {
		// ErrTopicExists: another broker has created the topic.
		case err == nil || errors.Is(err, metadata.ErrTopicExists):
			created = append(created, name)
		default:
			h.Logger.Warn("failed to create topic requested by a client", "topic", name, "error",
				err)
		}
	}
	h.awaitImage(ctx, func(img *metadata.Image) bool {
		return !slices.ContainsFunc(created, func(name string) bool {
			topic := img.Topic(name)
			return topic == nil || !allLed(img, []metadata.ID{topic.ID})
		})
	})
}

// creatable returns the requested topics that do not exist and that the client may create.
func (h *Handler) creatable(img *metadata.Image, raw *wire.Request,
	req *kmsg.MetadataRequest) (names []string) {
	for i := range req.Topics {
		name := req.Topics[i].Topic
		if name != nil && req.Topics[i].TopicID == [16]byte{} && img.Topic(*name) == nil &&
			!metadata.InternalTopic(*name) && metadata.CheckTopicName(*name) == nil &&
			h.Authorize(raw, api.DescribeTopic, *name) == nil &&
			h.AuthorizeCreate(raw, *name) == nil {
			names = append(names, *name)
		}
	}
	return names
}

// controller returns the id of the broker to which admin clients should send requests. Every broker
// can handle them, so controller returns the first broker that is up and has an endpoint on the
// client's listener.
func controller(img *metadata.Image, listener string) int32 {
	all := api.Nodes(img, listener)
	if len(all) == 0 {
		return metadata.NoBroker
	}
	return all[0].ID
}

// requestedTopic is one topic in a Metadata response. If the topic was not found, err is set
// instead of found.
type requestedTopic struct {
	answer kmsg.MetadataResponseTopic
	found  *metadata.Topic
	err    error
}

// requestedTopics returns the topics for a response: the requested topics in the order of the
// request, or all topics, sorted by name.
func (h *Handler) requestedTopics(img *metadata.Image, raw *wire.Request,
	req *kmsg.MetadataRequest) []requestedTopic {
	var all []requestedTopic
	// Null means all topics. Version 0 has no null; there an empty array means all topics.
	if req.Topics == nil || (req.Version == 0 && len(req.Topics) == 0) {
		for _, topic := range img.Topics {
			if h.May(raw, api.DescribeTopic, topic.Name) {
				all = append(all, requestedTopic{kmsg.NewMetadataResponseTopic(), topic, nil})
			}
		}
	}
	for i := range req.Topics {
		requested := &req.Topics[i]
		topic := requestedTopic{answer: kmsg.NewMetadataResponseTopic()}
		topic.answer.Topic, topic.answer.TopicID = requested.Topic, requested.TopicID
		topic.found, topic.err = findTopic(img, req.Version, requested)
		if err := h.authorizeDescribe(raw, requested, topic.found); err != nil {
			topic.found, topic.err = nil, err
		}
		if errors.Is(topic.err, api.ErrUnknownTopicID) || errors.Is(topic.err,
			api.ErrTopicAuthorization) &&
			requested.TopicID != [16]byte{} {
			topic.answer.Topic = nil
		}
		all = append(all, topic)
	}
	for i := range all {
		all[i].answer.AuthorizedOperations = api.OperationsOmitted
	}
	return all
}

// authorizeDescribe returns nil if the client may describe a topic that it requested by name or by
// id. It authorizes a requested name even if the topic does not exist, so that the error does not
// reveal whether the topic exists.
func (h *Handler) authorizeDescribe(raw *wire.Request, requested *kmsg.MetadataRequestTopic,
	found *metadata.Topic) error {
	switch {
	case found != nil:
		return h.Authorize(raw, api.DescribeTopic, found.Name)
	case requested.Topic != nil && requested.TopicID == [16]byte{}:
		return h.Authorize(raw, api.DescribeTopic, *requested.Topic)
	}
	return nil
}

// findTopic returns a requested topic. In version 12 and above, if the request contains an id,
// findTopic ignores the name, because Java's consumer sends an empty name. The errors for an
// invalid and an unknown name differ, because clients retry after the error for an unknown name.
func findTopic(img *metadata.Image, version int16,
	requested *kmsg.MetadataRequestTopic) (*metadata.Topic, error) {
	byID := requested.TopicID != [16]byte{}
	switch {
	case version < 12 && (byID || requested.Topic == nil):
		return nil, fmt.Errorf("%w: topics can be requested by id from version 12 on",
			api.ErrInvalidRequest)
	case byID:
		if topic := img.TopicByID(requested.TopicID); topic != nil {
			return topic, nil
		}
		return nil, api.ErrUnknownTopicID
	case requested.Topic == nil:
		return nil, fmt.Errorf("%w: topic has neither name nor id", api.ErrInvalidRequest)
	}
	if topic := img.Topic(*requested.Topic); topic != nil {
		return topic, nil
	}
	if err := metadata.CheckTopicName(*requested.Topic); err != nil {
		return nil, err
	}
	return nil, metadata.ErrTopicNotFound
}

// fillTopic sets a topic's fields from the metadata image. A partition whose leader is not up is
// reported without a leader, because the response does not contain that broker's address.
func fillTopic(answer *kmsg.MetadataResponseTopic, v api.View, topic *metadata.Topic,
	result *api.Outcome) {
	answer.Topic, answer.TopicID, answer.IsInternal = &topic.Name, topic.ID, topic.Internal
	answer.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(topic.Partitions))
	for _, p := range topic.Partitions {
		answer.Partitions = append(answer.Partitions, describePartition(v, p, result))
	}
}

func describePartition(v api.View, p *metadata.Partition,
	result *api.Outcome) kmsg.MetadataResponseTopicPartition {
	part := kmsg.NewMetadataResponseTopicPartition()
	part.Partition, part.Leader, part.LeaderEpoch = p.Index, p.Leader, p.LeaderEpoch
	part.Replicas, part.ISR = p.Replicas, p.ISR
	for _, id := range p.Replicas {
		if _, up := v.Image.Broker(id); !up {
			part.OfflineReplicas = append(part.OfflineReplicas, id)
		}
	}
	if err := v.CheckLeader(p); err != nil {
		part.Leader, part.ErrorCode = metadata.NoBroker, result.Code(err)
	}
	return part
}
