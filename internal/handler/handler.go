package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/handler/admin"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/handler/data"
	"heartwood.dev/heartwood/internal/handler/groups"
	"heartwood.dev/heartwood/internal/handler/transactions"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// Options configures a Handler. All fields except Authorize, Volume, Registry and Logger are
// required.
type Options struct {
	NodeID int32
	Image  func() *metadata.Image // returns the current metadata image; never nil
	// Await waits until enough returns true for the current metadata image, or until ctx is done.
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
	Authorize func(api.Action) bool
	// Explain returns why an action was denied, for the audit log. If it is nil, no reason is logged.
	Explain func(api.Action) string
	// PlainPeers reports whether clients of a listener may act as brokers without authentication, i.e.
	// fetch as followers and perform ClusterAction. If it is nil, Authorize decides both.
	PlainPeers func(listener string) bool
	Users      metadata.UserAdmin
	DataDir    string // data directory, for responses to admin clients
	Listen     string // host:port of the listener, for responses to admin clients
	// Volume returns the volume's size and free space in bytes. An unknown value is -1. If Volume is
	// nil, both are unknown.
	Volume   func() (total, usable int64)
	Registry prometheus.Registerer // optional
	Logger   *slog.Logger          // default: discards all messages
}

// Handler handles the Kafka requests of one broker. It implements wire.Handler.
type Handler struct {
	*api.Access
	image        func() *metadata.Image
	data         *data.Handler
	groups       *groups.Handler
	transactions *transactions.Handler
	admin        *admin.Handler
	rows         []row // rows of table and refused, by key; no handle: not supported
	// unlisted contains the keys in refused. ApiVersions does not list these APIs.
	unlisted map[int16]bool
	quotas   api.Quotas
	features featureEpoch
}

// New returns a Handler.
func New(opts Options) *Handler {
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{image: opts.Image, rows: byKey(refused, table), unlisted: map[int16]bool{}}
	h.Access = &api.Access{Authorizer: opts.Authorize, Explain: opts.Explain,
		PlainPeers: opts.PlainPeers, Logger: logger, Row: h.required}
	h.data = &data.Handler{Access: h.Access, Image: opts.Image, Replicas: opts.Replicas,
		DataDir: opts.DataDir, Volume: opts.Volume}
	h.groups = &groups.Handler{Access: h.Access, Image: opts.Image, Groups: opts.Groups,
		Transactions: opts.Transactions}
	h.transactions = &transactions.Handler{Access: h.Access, Image: opts.Image,
		Transactions: opts.Transactions, Groups: opts.Groups, Replicas: opts.Replicas,
		ProducerID: opts.ProducerID}
	h.admin = &admin.Handler{Access: h.Access, Image: opts.Image, Await: opts.Await,
		Topics: opts.Admin, Alterer: opts.Alterer, Mover: opts.Mover, Users: opts.Users,
		Broker: admin.Broker{NodeID: opts.NodeID, DataDir: opts.DataDir, Listen: opts.Listen}}
	h.quotas.Image, h.quotas.PlainPeers = opts.Image, opts.PlainPeers
	h.quotas.Register(opts.Registry)
	for i := range refused {
		h.unlisted[refused[i].key] = true
	}
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

// errRefused is the error for a request to which the broker cannot respond in a format that the
// client understands. It closes the connection.
var errRefused = errors.New("request refused")

// Handle implements wire.Handler.
//
// As in Kafka, a version outside the API's range closes the connection, because the broker does not
// know the response format. The exception is ApiVersions: the broker responds to any version,
// because clients use it to find out which versions are supported.
func (h *Handler) Handle(ctx context.Context, req *wire.Request) (wire.Reply, error) {
	a := h.row(req.Key)
	if a == nil {
		return wire.Reply{}, fmt.Errorf("%w: api key %d is not served", errRefused, req.Key)
	}
	if !a.serves(req.Version) && req.Key != api.KeyAPIVersions {
		return wire.Reply{}, fmt.Errorf("%w: %s version %d is not in [%d, %d]", errRefused, a.name,
			req.Version, a.min, a.max)
	}
	var answer wire.Reply
	var err error
	if m := h.quotas.Meter(ctx, req); m != nil {
		answer, err = h.handleMetered(m, a, req)
	} else {
		answer, err = a.handle(h, ctx, req)
	}
	if err != nil {
		err = fmt.Errorf("%s version %d: %w", a.name, req.Version, err)
	}
	return answer, err
}

// handleMetered handles a request and charges it to its user.
func (h *Handler) handleMetered(m *api.Meter, a *row, req *wire.Request) (wire.Reply, error) {
	return m.Handle(req, func(ctx context.Context, req *wire.Request) (wire.Reply, error) {
		return a.handle(h, ctx, req)
	})
}

// row returns the table's row for an API key, or nil if the API is not supported. Any key is
// allowed.
func (h *Handler) row(key int16) *row {
	if key < 0 || int(key) >= len(h.rows) || h.rows[key].handle == nil {
		return nil
	}
	return &h.rows[key]
}

// required implements Access.Row.
func (h *Handler) required(key int16) (name string, required []api.RequiredOperation) {
	if a := h.row(key); a != nil {
		return a.name, a.required
	}
	return "", nil
}
