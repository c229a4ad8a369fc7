package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// DeleteTopics (key 20), versions 1-6: deletes Topic resources. A resource's reclaim policy
// determines whether its data is also deleted.
//
//	4  flexible
//	5  error message, THROTTLING_QUOTA_EXCEEDED (KIP-599)
//	6  by id (KIP-516)

// DeleteTopicsShape describes the fields of the request (api.Shape).
var DeleteTopicsShape = api.Shape{api.PlainArray(api.Text()).To(5), api.Array(api.Text(),
	api.Fixed(16)).From(6), api.Fixed(4)}

// deletesMax is the maximum number of topics that one request deletes concurrently.
const deletesMax = 32

// deletion is the deletion of one topic in a request.
type deletion struct {
	name string // topic name; "" if it is unknown
	err  error
	// partitions is the number of partitions charged to the client's quota.
	partitions int
}

// DeleteTopics deletes the topics, and waits until their ids have disappeared from this broker's
// metadata image. It waits for ids instead of names, because a topic with the same name may have
// been created in the meantime. A broker deletes a topic's logs after it has removed the topic from
// its image, so the response does not wait for the disk.
func (h *Handler) DeleteTopics(ctx context.Context, raw *wire.Request,
	req *kmsg.DeleteTopicsRequest) wire.Reply {
	quotas := api.MeterOf(ctx)
	ctx, cancel := api.WithTimeout(ctx, api.AdminWait(req.TimeoutMillis))
	defer cancel()
	requested := req.Topics
	for i := range req.TopicNames {
		requested = append(requested, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
	}
	response := kmsg.NewPtrDeleteTopicsResponse()
	response.Version = req.Version
	result := h.Outcome()
	img := h.Image()
	deletions := make([]deletion, len(requested))
	for i := range requested {
		deletions[i] = h.startDeletion(raw, img, &requested[i])
		deletions[i].charge(quotas, img, req.Version >= 5)
	}
	h.deleteAll(ctx, deletions)
	for _, d := range deletions {
		if d.err != nil {
			quotas.Adjust(-d.partitions, req.Version >= 5)
		}
	}
	var deleted []metadata.ID
	for i, d := range deletions {
		topic := kmsg.NewDeleteTopicsResponseTopic()
		topic.Topic, topic.TopicID = requested[i].Topic, requested[i].TopicID
		if !errors.Is(d.err, api.ErrTopicAuthorization) && d.name != "" {
			topic.Topic = &d.name
		}
		if known := img.Topic(d.name); d.err == nil && known != nil {
			deleted = append(deleted, known.ID)
		}
		topic.ErrorCode, topic.ErrorMessage = result.Code(d.err), api.Message(d.err)
		response.Topics = append(response.Topics, topic)
	}
	if len(deleted) > 0 {
		h.awaitImage(ctx, func(img *metadata.Image) bool {
			return !slices.ContainsFunc(deleted,
				func(id metadata.ID) bool { return img.TopicByID(id) != nil })
		})
	}
	return api.Reply(response, result)
}

// startDeletion returns the deletion for a requested topic. The deletion has an error if the client
// may not delete the topic.
func (h *Handler) startDeletion(raw *wire.Request, img *metadata.Image,
	requested *kmsg.DeleteTopicsRequestTopic) (d deletion) {
	if d.name, d.err = nameToDelete(img, requested); d.err == nil {
		d.err = h.authorizeDelete(raw, requested.Topic == nil, d.name)
	}
	if d.err == nil {
		d.err = api.Writable(h.Image())
	}
	return d
}

// charge charges a topic's partitions to the client's quota.
func (d *deletion) charge(quotas *api.Meter, img *metadata.Image, strict bool) {
	topic := img.Topic(d.name)
	if quotas == nil || topic == nil || d.err != nil {
		return
	}
	if d.err = quotas.Mutate(len(topic.Partitions), strict); d.err == nil {
		d.partitions = len(topic.Partitions)
	}
}

// deleteAll deletes the topics of all deletions that have no error. Deleting several topics
// concurrently takes the metadata store no longer than deleting one: heartwood dev writes its file
// once, and the API server handles requests concurrently.
func (h *Handler) deleteAll(ctx context.Context, deletions []deletion) {
	var tasks sync.WaitGroup
	slots := make(chan struct{}, deletesMax)
	for i := range deletions {
		if deletions[i].err != nil {
			continue
		}
		slots <- struct{}{}
		tasks.Go(func() {
			defer func() { <-slots }()
			deletions[i].err = h.Topics.DeleteTopic(ctx, deletions[i].name)
		})
	}
	tasks.Wait()
}

// authorizeDelete returns nil if the client may delete a topic. If the client requested the topic
// by id, it must also be allowed to describe it, because the response reveals the topic's name.
func (h *Handler) authorizeDelete(raw *wire.Request, byID bool, name string) error {
	if byID && h.Authorize(raw, api.DescribeTopic, name) != nil {
		return api.ErrTopicAuthorization
	}
	return h.Authorize(raw, api.DeleteTopic, name)
}

// nameToDelete returns the name of a topic to delete, which is requested by name or by id. A name
// is not looked up in the image, because the metadata store may contain topics that the image does
// not contain yet.
func nameToDelete(img *metadata.Image, requested *kmsg.DeleteTopicsRequestTopic) (string, error) {
	byID := requested.TopicID != [16]byte{}
	switch {
	case requested.Topic != nil && byID:
		return "", fmt.Errorf("%w: give a topic's name or its id, not both", api.ErrInvalidRequest)
	case requested.Topic != nil:
		return *requested.Topic, nil
	}
	if topic := img.TopicByID(requested.TopicID); topic != nil && byID {
		return topic.Name, nil
	}
	return "", api.ErrUnknownTopicID
}
