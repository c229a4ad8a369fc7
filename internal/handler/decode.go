package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// decoded returns the handleFunc of an API whose bodies kmsg decodes. A body that cannot be decoded
// closes the connection, as in Kafka. kmsg copies strings, but byte fields and unknown tags alias
// the frame: a handler must clone whatever outlives the response. A request without byte fields
// releases its frame before it is handled: a handler may wait (for a commit), and must not hold the
// frame's share of a budget during the wait (ADR 0170). Such a handler must not use tags.
func decoded[P interface {
	*T
	kmsg.Request
}, T any](s shape, handle func(*Handler, context.Context, *wire.Request,
	P) wire.Reply) func(*Handler,
	context.Context, *wire.Request) (wire.Reply, error) {
	aliased := s.hasBlobs()
	return func(h *Handler, ctx context.Context, req *wire.Request) (wire.Reply, error) {
		request := P(new(T))
		if err := decode(s, req, request); err != nil {
			return wire.Reply{}, err
		}
		if !aliased {
			req.ReleaseBody()
		}
		return handle(h, ctx, req, request), nil
	}
}

// decode checks and decodes a request's body.
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
