package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// Options configure a Handler. All fields except Authorize, Volume, Registry and Logger are
// required.
type Options struct {
	NodeID int32
	Image  func() *metadata.Image // returns the current metadata image; never nil
	// Await waits until the current image satisfies enough, or until ctx ends.
	Await    func(ctx context.Context, enough func(*metadata.Image) bool)
	Replicas *replica.Set
	Groups   *coordinator.Groups
	// Transactions is the transaction coordinator.
	Transactions *coordinator.Transactions
	Admin        metadata.Admin
	Alterer      metadata.Alterer
	Mover        metadata.Mover
	ProducerID   func() (int64, error) // returns an unused producer id
	// Authorize reports whether a client may perform an action. If it is nil, every client may
	// perform every action.
	Authorize func(Action) bool
	// Explain returns the reason why an action was denied, for the audit log; nil: none is logged.
	Explain func(Action) string
	// PlainPeers reports whether clients of a listener may act as brokers without authentication:
	// fetch as followers, and ClusterAction. If it is nil, Authorize decides about both.
	PlainPeers func(listener string) bool
	Users      metadata.UserAdmin
	DataDir    string // data directory that admin clients are shown
	Listen     string // host:port of the listener, as admin clients are shown
	// Volume returns the size and the free space of the disk in bytes, with -1 for an unknown
	// value. If Volume is nil, both values are unknown.
	Volume   func() (total, usable int64)
	Registry prometheus.Registerer // may be nil
	Logger   *slog.Logger          // default: discards all messages
}

// Handler answers the Kafka requests of one broker. It implements wire.Handler.
type Handler struct {
	*Access
	opts Options
	rows []row // of table and refused, indexed by key; a row without handle is not served
	// unlisted contains the keys of refused, which ApiVersions does not list.
	unlisted map[int16]bool
	missing  logLimit // requested topics that do not exist; all have the same key
	quotas   quotas
	features featureEpoch
	markers  markerSenders
}

// New returns a Handler.
func New(opts Options) *Handler {
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{opts: opts, unlisted: map[int16]bool{}}
	h.Access = &Access{Authorizer: opts.Authorize, Explain: opts.Explain,
		PlainPeers: opts.PlainPeers, Logger: logger, Row: h.required}
	h.quotas.Image, h.quotas.PlainPeers = opts.Image, opts.PlainPeers
	h.quotas.register(opts.Registry)
	unlisted := refused(h)
	for i := range unlisted {
		h.unlisted[unlisted[i].key] = true
	}
	h.rows = byKey(unlisted, table(h))
	return h
}

// FrameMax implements wire.Handler.
func (h *Handler) FrameMax(key int16) int {
	if a := h.row(key); a != nil {
		return a.frameMax()
	}
	return 0
}

// Flexible implements wire.Handler.
func (h *Handler) Flexible(key, version int16) bool {
	a := h.row(key)
	return a != nil && a.isFlexible(version)
}

// errRefused is the error for a request that the broker cannot answer in a form that the client
// understands. It closes the connection.
var errRefused = errors.New("request refused")

// Handle implements wire.Handler.
//
// A version outside the API's range closes the connection, as in Kafka, because the client's format
// of the response is unknown. The exception is ApiVersions, by which clients learn the versions: it
// is answered for any version.
func (h *Handler) Handle(ctx context.Context, req *wire.Request) (wire.Reply, error) {
	a := h.row(req.Key)
	if a == nil {
		return wire.Reply{}, fmt.Errorf("%w: api key %d is not served", errRefused, req.Key)
	}
	if !a.serves(req.Version) && req.Key != keyAPIVersions {
		return wire.Reply{}, fmt.Errorf("%w: %s version %d is not in [%d, %d]", errRefused, a.name,
			req.Version, a.min, a.max)
	}
	var answer wire.Reply
	var err error
	if m := h.quotas.meter(ctx, req); m != nil {
		answer, err = m.handle(req, a.handle)
	} else {
		answer, err = a.handle(ctx, req)
	}
	if err != nil {
		err = fmt.Errorf("%s version %d: %w", a.name, req.Version, err)
	}
	return answer, err
}

// row returns the row of table for an API key, or nil if the API is not served. The key may be any
// number.
func (h *Handler) row(key int16) *row {
	if key < 0 || int(key) >= len(h.rows) || h.rows[key].handle == nil {
		return nil
	}
	return &h.rows[key]
}

// required implements Access.Row.
func (h *Handler) required(key int16) (name string, required []RequiredOperation) {
	if a := h.row(key); a != nil {
		return a.name, a.required
	}
	return "", nil
}

// reply encodes a response. Reply.Error is the first error of the outcome.
func reply(response kmsg.Response, result outcome) wire.Reply {
	return wire.Reply{
		// The header of an ApiVersions response never contains tags, because its client does not
		// know yet whether the broker supports flexible versions.
		Flexible: response.IsFlexible() && response.Key() != keyAPIVersions,
		Chunks:   []wire.Chunk{{Bytes: response.AppendTo(nil)}},
		Error:    result.name,
	}
}
