package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"

	"heartwood.dev/heartwood/internal/wire"
)

// kmsg trusts array lengths as far as bytes are left: n bytes of a body can make it allocate about 64 n. Two bounds keep that
// harmless: bodies decode under a quota shared by all connections, and a request that really holds more elements than any client
// sends is refused before it is kept for the length of a long poll. Produce, whose frames are large, has its own decoder.
const (
	decodeExpansion  = 64
	decodeBytesMax   = 256 << 20
	decodeFreeBytes  = 16 << 10 // bodies up to here do not ask for quota: the ordinary ones
	elementsMax      = 20_000   // topics, partitions or resources of one request
	decodeBodyMax    = decodeBytesMax / decodeExpansion
	errDecodeMessage = "decode %s version %d: %w"
)

// decodeQuota bounds what all decoding at one moment may allocate.
type decodeQuota struct{ bytes *semaphore.Weighted }

func newDecodeQuota() *decodeQuota {
	return &decodeQuota{semaphore.NewWeighted(decodeBytesMax)}
}

// read decodes a body into request.
func (q *decodeQuota) read(ctx context.Context, request kmsg.Request, body []byte) error {
	if len(body) > decodeFreeBytes {
		weight := int64(min(len(body), decodeBodyMax)) * decodeExpansion
		if err := q.bytes.Acquire(ctx, weight); err != nil {
			return err
		}
		defer q.bytes.Release(weight)
	}
	if err := request.ReadFrom(body); err != nil {
		return fmt.Errorf(errDecodeMessage, kmsg.NameForKey(request.Key()), request.GetVersion(), err)
	}
	return nil
}

// decoded makes a table entry of a method that takes a decoded request and returns a reply. A body that cannot be decoded closes
// the connection, as in Kafka.
func decoded[P interface {
	*T
	kmsg.Request
}, T any](handle func(*Handler, context.Context, P) wire.Reply) func(*Handler, context.Context, *wire.Request) (wire.Reply, error) {
	return func(h *Handler, ctx context.Context, req *wire.Request) (wire.Reply, error) {
		request := P(new(T))
		request.SetVersion(req.Version)
		if err := h.quota.read(ctx, request, req.Body); err != nil {
			return wire.Reply{}, err
		}
		if n := elements(request); n > elementsMax {
			return wire.Reply{}, fmt.Errorf("%w: %d elements, %d are allowed", errRefused, n, elementsMax)
		}
		return handle(h, ctx, request), nil
	}
}

// elements counts what a request asks for, in the arrays that a long poll or an answer would multiply.
func elements(request kmsg.Request) int {
	n := 0
	switch r := request.(type) {
	case *kmsg.FetchRequest:
		n = len(r.Topics) + len(r.ForgottenTopics)
		for i := range r.Topics {
			n += len(r.Topics[i].Partitions)
		}
		for i := range r.ForgottenTopics {
			n += len(r.ForgottenTopics[i].Partitions)
		}
	case *kmsg.ListOffsetsRequest:
		n = len(r.Topics)
		for i := range r.Topics {
			n += len(r.Topics[i].Partitions)
		}
	case *kmsg.MetadataRequest:
		n = len(r.Topics)
	case *kmsg.CreateTopicsRequest:
		n = len(r.Topics)
	case *kmsg.DeleteTopicsRequest:
		n = len(r.Topics) + len(r.TopicNames)
	case *kmsg.DescribeConfigsRequest:
		n = len(r.Resources)
		for i := range r.Resources {
			n += len(r.Resources[i].ConfigNames)
		}
	}
	return n
}
