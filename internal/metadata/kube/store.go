package kube

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/internal/metadata"
)

// Options of a Store.
type Options struct {
	Config    *rest.Config
	Namespace string
	Cluster   string // name of the LogCluster
	Logger    *slog.Logger
}

// Store is a broker's view of the API server: it watches Topics, Partitions and broker Leases, keeps its own Lease, and writes
// servingEpoch and isr of the partitions it leads.
type Store struct{}

// New returns a store; Run connects.
func New(opts Options) (*Store, error) { panic("unwritten") }

// Run implements metadata.Store.
func (s *Store) Run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	panic("unwritten")
}

// Serving implements metadata.Store.
func (s *Store) Serving(ctx context.Context, broker int32, served []metadata.Served) error {
	panic("unwritten")
}

// CreateTopic implements metadata.Admin: it makes a Topic resource.
func (s *Store) CreateTopic(ctx context.Context, t metadata.NewTopic) (*metadata.Topic, error) {
	panic("unwritten")
}

// DeleteTopic implements metadata.Admin: it deletes the Topic resource.
func (s *Store) DeleteTopic(ctx context.Context, name string) error { panic("unwritten") }
