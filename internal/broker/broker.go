package broker

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/metadata"
)

// Metadata is what a broker needs of the cluster's metadata: both internal/metadata/local and kube give it.
type Metadata interface {
	metadata.Store
	metadata.Admin
}

// Options of a Broker.
type Options struct {
	NodeID    int32
	DataDir   string
	Listen    string // host:port of the Kafka listener; port 0 picks one
	Advertise string // host:port that clients are told; default: the listener's own address
	Rack      string
	Metadata  Metadata
	Registry  prometheus.Registerer // may be nil
	Logger    *slog.Logger
}

// Broker is one broker: a listener, the partitions that live here, their store and cleaner.
type Broker struct{}

// New opens the store (its lock, its recovery) and the listener; nothing is served before Run.
func New(opts Options) (*Broker, error) { panic("unwritten") }

// Addr is the address clients are told.
func (b *Broker) Addr() string { panic("unwritten") }

// Run serves until ctx ends, then stops in order: listener, requests that wait, cleaner, store (clean shutdown).
func (b *Broker) Run(ctx context.Context) error { panic("unwritten") }

// Ready is nil once the first metadata image was applied and the broker serves.
func (b *Broker) Ready() error { panic("unwritten") }

// Report is what GET /api/v1/partitions shows of this broker.
func (b *Broker) Report() []report.Partition { panic("unwritten") }
