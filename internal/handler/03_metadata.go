package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

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
// A requested topic is created if the LogCluster allows that (autoCreateTopics) and lets admin
// requests write, and the request allows it.

// metadataShape describes the fields of the request (shape.go).
var metadataShape = shape{array(fixed(16).from(10), text()), fixed(1).from(4),
	fixed(1).from(8).to(10), fixed(1).from(8)}

// metadata answers from one metadata image, so that its brokers and leaders are consistent.
func (h *Handler) metadata(ctx context.Context, raw *wire.Request,
	req *kmsg.MetadataRequest) wire.Reply {
	h.autoCreate(ctx, raw, req)
	img := h.opts.Image()
	response := kmsg.NewPtrMetadataResponse()
	response.Version = req.Version
	response.ClusterID = &img.ClusterID
	response.ControllerID = controller(img, raw.Listener)
	response.AuthorizedOperations = operationsOmitted
	if req.IncludeClusterAuthorizedOperations {
		response.AuthorizedOperations = h.authorizedOperations(raw, ResourceCluster,
			clusterName)
	}
	for _, b := range nodes(img, raw.Listener) {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = b.ID, b.Host, b.Port, b.rack()
		response.Brokers = append(response.Brokers, broker)
	}
	result := outcome{handler: h}
	for _, topic := range h.requestedTopics(img, raw, req) {
		topic.answer.ErrorCode = result.code(topic.err)
		if topic.err == nil {
			fillTopic(&topic.answer, view{img, raw.Listener, req.Version >= 6}, topic.found,
				&result)
			if req.IncludeTopicAuthorizedOperations {
				topic.answer.AuthorizedOperations = h.authorizedOperations(raw, ResourceTopic,
					topic.found.Name)
			}
		}
		response.Topics = append(response.Topics, topic.answer)
	}
	return reply(response, result)
}

// autoCreate creates the missing topics that a request names, if the request allows auto-creation,
// with the cluster's defaults, and waits until they can be used. A topic that could not be created
// is reported as unknown. Versions below 4 always allow it.
func (h *Handler) autoCreate(ctx context.Context, raw *wire.Request,
	req *kmsg.MetadataRequest) {
	img := h.opts.Image()
	if !img.Policy.AutoCreate || img.Policy.ReadOnly || req.Version >= 4 &&
		!req.AllowAutoTopicCreation {
		return
	}
	var missing []string
	for i := range req.Topics {
		if name := req.Topics[i].Topic; name != nil && req.Topics[i].TopicID == [16]byte{} &&
			img.Topic(*name) == nil && !metadata.InternalTopic(*name) &&
			h.authorize(raw, describeTopic, *name) == nil &&
			h.authorizeCreate(raw, *name) == nil {
			missing = append(missing, *name)
		}
	}
	if len(missing) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, adminWaitMax)
	defer cancel()
	var created []string
	for _, name := range missing {
		_, err := h.opts.Admin.CreateTopic(ctx,
			metadata.NewTopic{Name: name, Partitions: -1, Replicas: -1})
		switch {
		case err == nil || errors.Is(err, metadata.ErrTopicExists): // another broker created it
			created = append(created, name)
		case !errors.Is(err, metadata.ErrInvalidTopicName):
			h.logger.Warn("failed to create topic requested by a client", "topic", name, "error",
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

// controller returns the broker that admin clients send requests to: every broker can serve them,
// so it is the first that is up and reachable on the client's listener.
func controller(img *metadata.Image, listener string) int32 {
	all := nodes(img, listener)
	if len(all) == 0 {
		return metadata.NoBroker
	}
	return all[0].ID
}

// requestedTopic is one topic of a Metadata response: the topic that was found, or the error.
type requestedTopic struct {
	answer kmsg.MetadataResponseTopic
	found  *metadata.Topic
	err    error
}

// requestedTopics finds the topics of a request, in its order, or all topics, by name.
func (h *Handler) requestedTopics(img *metadata.Image, raw *wire.Request,
	req *kmsg.MetadataRequest) []requestedTopic {
	var all []requestedTopic
	// Null requests all topics from version 1 on; version 0 has no null and uses an empty array.
	if req.Topics == nil || (req.Version == 0 && len(req.Topics) == 0) {
		for _, topic := range img.Topics {
			if h.authorize(raw, describeTopic, topic.Name) == nil {
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
		if errors.Is(topic.err, errUnknownTopicID) || errors.Is(topic.err, errTopicAuthorization) &&
			requested.TopicID != [16]byte{} {
			topic.answer.Topic = nil
		}
		all = append(all, topic)
	}
	for i := range all {
		all[i].answer.AuthorizedOperations = operationsOmitted
	}
	return all
}

// authorizeDescribe returns nil if the client may describe a topic that it named, by name or by id.
// The client must be allowed to describe a topic that does not exist too: the error must not reveal
// whether a topic exists.
func (h *Handler) authorizeDescribe(raw *wire.Request, requested *kmsg.MetadataRequestTopic,
	found *metadata.Topic) error {
	switch {
	case found != nil:
		return h.authorize(raw, describeTopic, found.Name)
	case requested.Topic != nil && requested.TopicID == [16]byte{}:
		return h.authorize(raw, describeTopic, *requested.Topic)
	}
	return nil
}

// findTopic finds a topic by name or, from version 12 on, by id; the name is ignored if there is an
// id: Java's consumer sends an empty one. An invalid name is distinguished from an unknown one:
// clients retry after the latter.
func findTopic(img *metadata.Image, version int16,
	requested *kmsg.MetadataRequestTopic) (*metadata.Topic, error) {
	byID := requested.TopicID != [16]byte{}
	switch {
	case version < 12 && (byID || requested.Topic == nil):
		return nil, fmt.Errorf("%w: topics can be requested by id from version 12 on",
			errInvalidRequest)
	case byID:
		if topic := img.TopicByID(requested.TopicID); topic != nil {
			return topic, nil
		}
		return nil, errUnknownTopicID
	case requested.Topic == nil:
		return nil, fmt.Errorf("%w: topic has neither name nor id", errInvalidRequest)
	}
	if topic := img.Topic(*requested.Topic); topic != nil {
		return topic, nil
	}
	if err := metadata.CheckTopicName(*requested.Topic); err != nil {
		return nil, err
	}
	return nil, metadata.ErrTopicNotFound
}

// fillTopic fills in a topic from the image. If the leader is not up, the partition is reported
// without a leader: the response has no address for it.
func fillTopic(answer *kmsg.MetadataResponseTopic, v view, topic *metadata.Topic,
	result *outcome) {
	answer.Topic, answer.TopicID, answer.IsInternal = &topic.Name, topic.ID, topic.Internal
	answer.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(topic.Partitions))
	for _, p := range topic.Partitions {
		answer.Partitions = append(answer.Partitions, describePartition(v, p, result))
	}
}

func describePartition(v view, p *metadata.Partition,
	result *outcome) kmsg.MetadataResponseTopicPartition {
	part := kmsg.NewMetadataResponseTopicPartition()
	part.Partition, part.Leader, part.LeaderEpoch = p.Index, p.Leader, p.LeaderEpoch
	part.Replicas, part.ISR = p.Replicas, p.ISR
	for _, id := range p.Replicas {
		if _, up := v.image.Broker(id); !up {
			part.OfflineReplicas = append(part.OfflineReplicas, id)
		}
	}
	if err := v.checkLeader(p); err != nil {
		part.Leader, part.ErrorCode = metadata.NoBroker, result.code(err)
	}
	return part
}
