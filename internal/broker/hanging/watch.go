package hanging

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
)

const (
	interval = time.Minute
	// ObservedFor is how long this broker must have observed an open transaction before it asks the
	// coordinators. The transaction's age is not sufficient, because after a restart it is computed
	// from the producer's timestamps. Also, a coordinator may respond from a metadata image that is up
	// to ObservedFor old.
	ObservedFor = 5 * time.Minute
	// askTimeout limits the wait for the responses of all coordinators.
	askTimeout = 30 * time.Second
)

// openKey identifies an open transaction in a partition's log during one leader epoch.
type openKey struct {
	id          replica.PartitionID
	leaderEpoch int32
	producer    int64
	epoch       int16
	first       int64
}

// Watch finds hanging transactions in the partitions that a broker leads. It aborts transactions of
// producers that no transaction coordinator knows.
type Watch struct {
	opts    Options
	aborted prometheus.Counter

	first map[openKey]time.Time // time at which this broker first observed each late transaction

	mu      sync.Mutex
	hanging map[openKey]bool // result of the last check
}

// Options contains the parts of the broker that Watch uses.
type Options struct {
	Serves    <-chan struct{}        // closed once requests are accepted
	States    func() []replica.State // returns the states of the partitions on this broker
	LateAfter func() time.Duration   // returns the age at which an open transaction is late
	Reachable func() bool            // reports whether the metadata image is current
	// Known returns the producers among the given ones that a transaction coordinator knows. The value
	// is true if the producer has an open transaction.
	Known func(ctx context.Context, producers []int64) (map[int64]bool, error)
	// Abort aborts the open transaction whose producer satisfies matches. It fails if this broker does
	// not lead the partition in the given leader epoch.
	Abort func(ctx context.Context, id replica.PartitionID, leaderEpoch int32,
		matches func(logstore.ProducerInfo) bool) error
	Logger *slog.Logger
}

// New returns a Watch. The caller must call Run.
func New(opts Options) *Watch {
	return &Watch{opts: opts, aborted: prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "heartwood", Subsystem: "log", Name: "hanging_transactions_aborted_total",
		Help: "Hanging transactions that this broker has aborted, because no transaction " +
			"coordinator knew their producer."})}
}

// Aborted returns the metric that counts the transactions aborted by the Watch.
func (h *Watch) Aborted() prometheus.Counter { return h.aborted }

// Run calls Check regularly until ctx ends. It starts once the broker accepts requests.
func (h *Watch) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-h.opts.Serves:
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.Check(ctx, time.Now())
		}
	}
}

// Check finds the hanging transactions, and aborts transactions of unknown producers.
func (h *Watch) Check(ctx context.Context, now time.Time) {
	suspects := h.suspects(now)
	hanging := h.stillHanging(suspects)
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.hanging = hanging
	}()
	if len(suspects) == 0 || !h.opts.Reachable() {
		return
	}
	var producers []int64
	for _, key := range suspects {
		if !slices.Contains(producers, key.producer) {
			producers = append(producers, key.producer)
		}
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	known, err := h.opts.Known(asking, producers)
	if err != nil {
		h.opts.Logger.Warn("failed to find out whether open transactions hang",
			"transactions", len(suspects), "error", err)
		return
	}
	clear(hanging)
	for _, key := range suspects {
		open, isKnown := known[key.producer]
		switch {
		case open: // the coordinator will end it
		case isKnown || !h.abort(ctx, key):
			hanging[key] = true
		}
	}
}

// stillHanging returns the suspects that were hanging at the last check. Check uses this result if
// the coordinators do not respond.
func (h *Watch) stillHanging(suspects []openKey) map[openKey]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	still := map[openKey]bool{}
	for _, key := range suspects {
		if h.hanging[key] {
			still[key] = true
		}
	}
	return still
}

// suspects returns the late transactions that this broker has observed for at least ObservedFor.
func (h *Watch) suspects(now time.Time) (all []openKey) {
	seen := map[openKey]time.Time{}
	limit := h.opts.LateAfter()
	for _, state := range h.opts.States() {
		if !state.Leader || state.Log == nil {
			continue
		}
		if count, _ := state.Log.OpenTransactions(); count == 0 {
			continue // avoids locking the log
		}
		for _, open := range state.Log.Producers().Transactions() {
			key := keyOf(state, open)
			since, before := h.first[key]
			if !before {
				since = now
			}
			seen[key] = since
			if now.Sub(open.Since) >= limit && now.Sub(since) >= ObservedFor {
				all = append(all, key)
			}
		}
	}
	h.first = seen
	return all
}

func keyOf(state replica.State, open logstore.Transaction) openKey {
	return openKey{state.ID, state.Log.LeaderEpoch(), open.ProducerID, open.Epoch, open.First}
}

// abort aborts a transaction whose producer no coordinator knows, and reports whether the abort
// succeeded. The producer cannot have begun another transaction in the meantime, because no
// coordinator knows its id.
func (h *Watch) abort(ctx context.Context, key openKey) bool {
	log := h.opts.Logger.With("partition", key.id, "producer", key.producer, "epoch", key.epoch,
		"firstOffset", key.first)
	err := h.opts.Abort(ctx, key.id, key.leaderEpoch, func(p logstore.ProducerInfo) bool {
		return p.ID == key.producer && p.Epoch == key.epoch && p.TxnFirst == key.first
	})
	if err != nil {
		log.Warn("failed to abort a transaction that no transaction coordinator knows", "error", err)
		return false
	}
	log.Warn("aborted a transaction that no transaction coordinator knows")
	h.aborted.Inc()
	return true
}

// FirstOffsets returns the first offset of each hanging transaction in a partition.
func (h *Watch) FirstOffsets(id replica.PartitionID) (first []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range maps.Keys(h.hanging) {
		if key.id == id {
			first = append(first, key.first)
		}
	}
	return first
}
