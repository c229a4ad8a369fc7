package handler

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// decoded makes a table entry of an API whose bodies kmsg decodes: handle gets the request. A body
// that is no request closes the connection, as in Kafka: nothing is known of what its client meant.
// kmsg copies strings, but its byte fields and unknown tags alias the frame: what is to outlive the
// answer has to be cloned. A request without byte fields gives the frame up before it is handled:
// it may wait (a commit), and its frame's share of a budget must not (docs/adr/0170). Its handler
// must not look at tags, then.
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

// decode reads a request's body, for handlers that need more of the request than that.
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
