package handler

import (
	"context"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// Options of a Handler.
type Options struct {
	NodeID     int32
	Image      func() *metadata.Image // the newest; never nil
	Replicas   *replica.Set
	Admin      metadata.Admin
	ProducerID func() (int64, error) // a producer id that nobody has
}

// Handler answers Kafka requests; it is the wire.Handler of a broker.
type Handler struct{}

// New returns a handler.
func New(opts Options) *Handler { panic("unwritten") }

// FrameMax implements wire.Handler.
func (h *Handler) FrameMax(key int16) int { panic("unwritten") }

// Handle implements wire.Handler.
func (h *Handler) Handle(ctx context.Context, req *wire.Request) (wire.Reply, error) {
	panic("unwritten")
}
