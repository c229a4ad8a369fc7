package local

import (
	"context"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// Store keeps a cluster's metadata in one file and hands it to the brokers of one process.
// It makes the same decisions (placement, election) as the operator, through internal/placement.
type Store struct{}

// Open reads the file, or begins a new cluster.
func Open(fsys vfs.FS, file string) (*Store, error) { panic("unwritten") }

// Sync makes the cluster what the manifests say. Topics that came from earlier manifests and are in them no longer are deleted,
// as their reclaim policy says; those made through Kafka stay. Faults concern single topics and come joined.
func (s *Store) Sync(cluster *v1alpha1.LogCluster, brokers int, topics []*v1alpha1.Topic) error {
	panic("unwritten")
}

// Image returns the newest image.
func (s *Store) Image() *metadata.Image { panic("unwritten") }

// AwaitServing waits until every partition of the newest image is served by its leader.
func (s *Store) AwaitServing(ctx context.Context) error { panic("unwritten") }

// Run implements metadata.Store.
func (s *Store) Run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	panic("unwritten")
}

// Serving implements metadata.Store.
func (s *Store) Serving(ctx context.Context, broker int32, served []metadata.Served) error {
	panic("unwritten")
}

// CreateTopic implements metadata.Admin.
func (s *Store) CreateTopic(ctx context.Context, t metadata.NewTopic) (*metadata.Topic, error) {
	panic("unwritten")
}

// DeleteTopic implements metadata.Admin.
func (s *Store) DeleteTopic(ctx context.Context, name string) error { panic("unwritten") }
