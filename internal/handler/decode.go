package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// handleFunc answers one request of an API.
type handleFunc func(context.Context, *wire.Request) (wire.Reply, error)

// decoded returns the handleFunc of an API whose bodies are decoded by kmsg. A body that cannot be
// decoded closes the connection, as in Kafka.
//
// The decoded strings are copies, but byte fields and unknown tags alias the frame. A handler must
// clone the bytes that it needs after the response. If the request has no byte fields, decoded
// releases the frame before it calls the handler: a handler may wait, for example for a commit, and
// a waiting request must not occupy the memory budget for frames (ADR 0170). Therefore a handler
// that is passed to decoded must not use unknown tags.
func decoded[P interface {
	*T
	kmsg.Request
}, T any](s shape, handle func(context.Context, *wire.Request, P) wire.Reply) handleFunc {
	aliased := s.hasBlobs()
	return func(ctx context.Context, req *wire.Request) (wire.Reply, error) {
		request := P(new(T))
		if err := decode(s, req, request); err != nil {
			return wire.Reply{}, err
		}
		if !aliased {
			req.ReleaseBody()
		}
		return handle(ctx, req, request), nil
	}
}

// decode checks a request's body against a shape, and then decodes it.
func decode(s shape, req *wire.Request, into kmsg.Request) error {
	into.SetVersion(req.Version)
	err := s.check(req.Version, into.IsFlexible(), req.Body)
	if err == nil {
		err = into.ReadFrom(req.Body)
	}
	if err != nil {
		return fmt.Errorf("decode body: %w", err)
	}
	return nil
}
