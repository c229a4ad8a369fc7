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

// DeleteTopics (key 20), versions 1-6: each deletes a Topic resource. What becomes of the data is
// the resource's reclaim policy.
//
//	4  flexible     5  error message (KIP-599)     6  by id (KIP-516)

// deleteTopicsShape is the request's fields (see shape.go).
var deleteTopicsShape = shape{plainArray(text()).to(5), array(text(), fixed(16)).from(6), fixed(4)}

// deleteTopics deletes topic by topic, and waits until this broker's image has lost those that it
// had. It looks for their ids: a topic of the same name may have been made meanwhile.
func (h *Handler) deleteTopics(ctx context.Context, raw *wire.Request,
	req *kmsg.DeleteTopicsRequest) wire.Reply {
	ctx, cancel := context.WithTimeout(ctx, adminWait(req.TimeoutMillis))
	defer cancel()
	asked := req.Topics
	for i := range req.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
	}
	response := kmsg.NewPtrDeleteTopicsResponse()
	response.Version = req.Version
	result := outcome{handler: h}
	img := h.opts.Image()
	var gone []metadata.ID
	for i := range asked {
		topic := kmsg.NewDeleteTopicsResponseTopic()
		topic.Topic, topic.TopicID = asked[i].Topic, asked[i].TopicID
		name, err := nameToDelete(img, &asked[i])
		if err == nil {
			err = h.authorizeDelete(raw, asked[i].Topic == nil, name)
		}
		if err == nil || !errors.Is(err, errTopicAuthorization) && name != "" {
			topic.Topic = &name
		}
		if err == nil {
			err = h.writable()
		}
		if err == nil {
			err = h.opts.Admin.DeleteTopic(ctx, name)
		}
		if known := img.Topic(name); err == nil && known != nil {
			gone = append(gone, known.ID)
		}
		topic.ErrorCode, topic.ErrorMessage = result.code(err), message(err)
		response.Topics = append(response.Topics, topic)
	}
	if len(gone) > 0 {
		h.awaitShown(ctx, func(img *metadata.Image) bool {
			return !slices.ContainsFunc(gone,
				func(id metadata.ID) bool { return img.TopicByID(id) != nil })
		})
	}
	return reply(response, result)
}

// authorizeDelete returns nil if the client may delete a topic. One that it named by id and may not
// describe is unknown to it.
func (h *Handler) authorizeDelete(raw *wire.Request, byID bool, name string) error {
	if byID && h.authorize(raw, describeTopic, name) != nil {
		return errTopicAuthorization
	}
	return h.authorize(raw, deleteTopic, name)
}

// nameToDelete finds the name of a topic given by name or by id. A name is not looked up in the
// image: the metadata may know of topics that the image does not show yet.
func nameToDelete(img *metadata.Image, asked *kmsg.DeleteTopicsRequestTopic) (string, error) {
	byID := asked.TopicID != [16]byte{}
	switch {
	case asked.Topic != nil && byID:
		return "", fmt.Errorf("%w: a topic is given by name or by id, not both", errInvalidRequest)
	case asked.Topic != nil:
		return *asked.Topic, nil
	}
	if topic := img.TopicByID(asked.TopicID); topic != nil && byID {
		return topic.Name, nil
	}
	return "", errUnknownTopicID
}
