package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// Options of a Handler. All but Volume and Logger must be set.
type Options struct {
	NodeID int32
	Image  func() *metadata.Image // the newest; never nil
	// Await waits until Image satisfies enough, or ctx ends.
	Await      func(ctx context.Context, enough func(*metadata.Image) bool)
	Replicas   *replica.Set
	Groups     *coordinator.Groups
	Admin      metadata.Admin
	Alterer    metadata.Alterer
	Mover      metadata.Mover
	ProducerID func() (int64, error) // a producer id that nobody has
	// Authorize reports whether a client may do an action; nil: every client may do everything.
	Authorize func(Action) bool
	DataDir   string // as admin clients are told
	// Volume is the size of the disk and what is left of it, in bytes, -1 where that is not known;
	// nil: neither is.
	Volume func() (total, usable int64)
	Logger *slog.Logger // default: discards
}

// Handler answers Kafka requests; it is the wire.Handler of a broker.
type Handler struct {
	opts   Options
	logger *slog.Logger
	apis   []api // by key, with gaps where a key is not served
}

// New returns a handler.
func New(opts Options) *Handler {
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Handler{opts: opts, logger: logger, apis: byKey(table)}
}

// FrameMax implements wire.Handler.
func (h *Handler) FrameMax(key int16) int {
	if a := h.api(key); a != nil {
		return a.frameMax()
	}
	return 0
}

// Flexible implements wire.Handler.
func (h *Handler) Flexible(key, version int16) bool {
	a := h.api(key)
	return a != nil && a.isFlexible(version)
}

// errRefused closes a connection whose request cannot be answered in a form its client would
// understand.
var errRefused = errors.New("request refused")

// Handle implements wire.Handler.
//
// A version outside an API's range closes the connection, as Kafka does: the shape of an answer
// that the client asked for, and that we do not know, cannot be guessed. ApiVersions alone is
// answered at any version, since this is how clients find out.
func (h *Handler) Handle(ctx context.Context, req *wire.Request) (wire.Reply, error) {
	a := h.api(req.Key)
	if a == nil {
		return wire.Reply{}, fmt.Errorf("%w: api key %d is not served", errRefused, req.Key)
	}
	if !a.serves(req.Version) && req.Key != keyAPIVersions {
		return wire.Reply{}, fmt.Errorf("%w: %s version %d is not in [%d, %d]", errRefused, a.name,
			req.Version, a.min, a.max)
	}
	answer, err := a.handle(h, ctx, req)
	if err != nil {
		err = fmt.Errorf("%s version %d: %w", a.name, req.Version, err)
	}
	return answer, err
}

// api returns the row of a key, nil if it is not served. A key is any int16 that a peer sent.
func (h *Handler) api(key int16) *api {
	if key < 0 || int(key) >= len(h.apis) || h.apis[key].handle == nil {
		return nil
	}
	return &h.apis[key]
}

// reply encodes a response; its error is the first of the request's outcome.
func reply(response kmsg.Response, result outcome) wire.Reply {
	return wire.Reply{
		// The header of an ApiVersions response never carries tags: its reader does not know yet
		// whether we do.
		Flexible: response.IsFlexible() && response.Key() != keyAPIVersions,
		Chunks:   []wire.Chunk{{Bytes: response.AppendTo(nil)}},
		Error:    result.name,
	}
}
