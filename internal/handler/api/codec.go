package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// Decoded returns the handler for an API whose request bodies kmsg decodes. If a body cannot be
// decoded, the connection is closed, as in Kafka.
//
// The decoded strings are copies, but byte fields and unknown tags alias the frame. A handler must
// clone bytes that it needs after the response. If the request has no byte fields, Decoded releases
// the frame before it calls the handler. A handler may wait, for example for a commit, and a
// waiting request must not occupy the memory budget for frames (ADR 0170). For the same reason, a
// handler that is passed to Decoded must not use unknown tags.
func Decoded[H any, P interface {
	*T
	kmsg.Request
}, T any](s Shape, handle func(H, context.Context, *wire.Request, P) wire.Reply) func(H,
	context.Context, *wire.Request) (wire.Reply, error) {
	aliased := s.HasBlobs()
	return func(h H, ctx context.Context, req *wire.Request) (wire.Reply, error) {
		request := P(new(T))
		if err := Decode(s, req, request); err != nil {
			return wire.Reply{}, err
		}
		if !aliased {
			req.ReleaseBody()
		}
		return handle(h, ctx, req, request), nil
	}
}

// Decode checks a request's body against a shape and then decodes it.
func Decode(s Shape, req *wire.Request, into kmsg.Request) error {
	into.SetVersion(req.Version)
	err := s.Check(req.Version, into.IsFlexible(), req.Body)
	if err == nil {
		err = into.ReadFrom(req.Body)
	}
	if err != nil {
		return fmt.Errorf("decode body: %w", err)
	}
	return nil
}

// Reply encodes a response. Reply.Error is the first error of result.
func Reply(response kmsg.Response, result Outcome) wire.Reply {
	return wire.Reply{
		// The header of an ApiVersions response never contains tags, because the client does not know yet
		// whether the broker supports flexible versions.
		Flexible: response.IsFlexible() && response.Key() != KeyAPIVersions,
		Chunks:   []wire.Chunk{{Bytes: response.AppendTo(nil)}},
		Error:    result.Name,
	}
}
