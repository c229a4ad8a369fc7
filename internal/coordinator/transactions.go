package coordinator

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// TransactionOptions configures Transactions. All fields except TimeoutMax, Expiration, Reachable,
// Registry and Logger must be set.
type TransactionOptions struct {
	NodeID   int32
	Replicas *replica.Set
	Image    func() *metadata.Image
	Await    func(ctx context.Context, enough func(*metadata.Image) bool)
	Admin    metadata.Admin
	// Config contains ProducerID, and defaults that the LogCluster's settings override.
	Config transaction.Config
	// Connect connects to another broker.
	Connect func(ctx context.Context, to metadata.Broker) (Peer, error)
	// WriteMarkers writes markers to partitions that this broker leads, as Peer.WriteMarkers does on
	// other brokers.
	WriteMarkers func(ctx context.Context, markers []PartitionMarker) []error
	// Reachable reports whether the metadata image is current. If it is nil, the image always counts
	// as current.
	Reachable func() bool
	Registry  prometheus.Registerer // optional
	Logger    *slog.Logger          // logger; by default, messages are discarded
}

// Peer is a connection to another broker. Only one goroutine uses it. After an error of the whole
// request, and not only of a single item, the connection is unusable.
type Peer interface {
	// WriteMarkers sends a WriteTxnMarkers request. It returns one error for each marker.
	WriteMarkers(ctx context.Context, markers []PartitionMarker) ([]error, error)
	// Verify sends an AddPartitionsToTxn request in the form for brokers. It returns one error for
	// each partition in each question.
	Verify(ctx context.Context, questions []replica.Verification) ([][]error, error)
	// KnownProducers returns the result of Transactions.KnownHere on the other broker.
	KnownProducers(ctx context.Context, producers []int64) (KnownProducers, error)
	Close() error
}

// PartitionMarker is a transaction marker for one partition.
type PartitionMarker struct {
	Partition        replica.PartitionID
	Producer         transaction.Producer
	Commit           bool
	CoordinatorEpoch int32 // leader epoch of the coordinator's partition of __transaction_state
	Version          int16 // transaction version
}

// Transactions is this broker's transaction coordinator. For the partitions that this broker leads,
// it also verifies transactions (replica.Verifier), by asking the transactions' coordinators.
type Transactions struct {
	opts     TransactionOptions
	runtime  *txnRuntime
	markers  *markerSender
	verifier *verifier
	metrics  txnMetrics

	mu     sync.Mutex
	loaded map[*txnShard]struct{}
}

type (
	txnRuntime = runtime.Runtime[*txnShard, transaction.TimerKey, transaction.Result]
	txnHandle  = runtime.Shard[*txnShard, transaction.TimerKey, transaction.Result]
)

// txnExpireInterval is the time between two searches for unused transactional ids (Kafka's
// transaction.remove.expired.transaction.cleanup.interval.ms).
const txnExpireInterval = time.Hour

// NewTransactions returns a coordinator without shards. Close stops the coordinator.
func NewTransactions(opts TransactionOptions) *Transactions {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Reachable == nil {
		opts.Reachable = func() bool { return true }
	}
	t := &Transactions{opts: opts, metrics: newTxnMetrics(), loaded: map[*txnShard]struct{}{}}
	t.markers = newMarkerSender(&t.opts, t.metrics)
	t.verifier = newVerifier(&t.opts)
	t.runtime = runtime.New(
		runtime.Options[*txnShard, transaction.TimerKey, transaction.Result]{
			NodeID: opts.NodeID,
			Topic: metadata.NewTopic{
				// With -1, Admin chooses the numbers, as for other internal topics.
				Name: metadata.TransactionsTopic, Partitions: -1, Replicas: -1,
				Properties: map[string]string{
					"cleanup.policy": "compact", "compression.type": "uncompressed",
					"segment.bytes": "104857600", "unclean.leader.election.enable": "false",
				},
			},
			NewMachine: t.newShard,
			ConfigChanged: func(before, now *metadata.Image) bool {
				return before.Transactions != now.Transactions
			},
			Release:        t.release,
			ExpireInterval: func(*metadata.Image) time.Duration { return txnExpireInterval },
			Replicas:       opts.Replicas, Image: opts.Image, Await: opts.Await, Admin: opts.Admin,
			Appends: t.metrics.appends, LoadSeconds: t.metrics.load, Logger: opts.Logger,
		})
	if opts.Registry != nil {
		t.metrics.register(opts.Registry, t)
	}
	return t
}

// Apply starts and stops shards, as Groups.Apply does. It sends waiting markers to new leaders at
// once.
func (t *Transactions) Apply(img *metadata.Image) {
	t.runtime.Apply(img)
	t.markers.apply(img)
}

// Close stops all shards and closes the connections to other brokers.
func (t *Transactions) Close() {
	t.runtime.Close()
	t.markers.close()
	t.verifier.close()
}

// Find returns the broker that coordinates a transactional id. It creates the topic for
// transactional ids if the topic does not exist.
func (t *Transactions) Find(ctx context.Context, id string) (metadata.Broker, error) {
	return t.runtime.Find(ctx, id)
}

// configFor returns the configuration of transactions, with the LogCluster's settings.
func (t *Transactions) configFor(cluster metadata.Transactions) transaction.Config {
	c := t.opts.Config
	c.TimeoutMax = cmp.Or(cluster.TimeoutMax, c.TimeoutMax)
	c.Expiration = cmp.Or(cluster.IDExpiration, c.Expiration)
	return c
}

// release queues the marker in the result of an effect.
func (t *Transactions) release(ctx context.Context, s *txnHandle, result transaction.Result) {
	t.markers.send(ctx, s, result.Marker)
}
