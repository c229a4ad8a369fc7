package sim

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/coordinator"
	txn "heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// coordinators are a broker process's group coordinator and transaction coordinator. They are real,
// but their messages use the simulated network.
type coordinators struct {
	groups       *coordinator.Groups
	transactions *coordinator.Transactions
	// senders contains the newest link over which each broker has sent markers.
	senders [16]atomic.Uint64
}

// startCoordinators starts a process's coordinators. It must be called before the process applies
// an image.
func (l *liveBroker) startCoordinators(logger *slog.Logger) {
	await := func(context.Context, func(*metadata.Image) bool) {}
	l.groups = coordinator.NewGroups(coordinator.Options{NodeID: l.id, Replicas: l.set,
		Image: l.image.Load, Await: await, Admin: noAdmin{}, Logger: logger})
	l.transactions = coordinator.NewTransactions(coordinator.TransactionOptions{NodeID: l.id,
		Replicas: l.set, Image: l.image.Load, Await: await, Admin: noAdmin{},
		Config:  txn.Config{ProducerID: l.w.exactlyOnce.nextProducerID},
		Connect: l.connectCoordinator, WriteMarkers: l.writeMarkers, Logger: logger})
}

func (c *coordinators) apply(image *metadata.Image) {
	if c.groups != nil {
		c.groups.Apply(image)
		c.transactions.Apply(image)
	}
}

func (c *coordinators) close() {
	if c.groups != nil {
		c.transactions.Close()
		c.groups.Close()
	}
}

// noAdmin does not create topics, because the internal topics exist from the start.
type noAdmin struct{ metadata.Admin }

func (noAdmin) CreateTopic(context.Context, metadata.NewTopic) (*metadata.Topic, error) {
	return nil, metadata.ErrTopicExists
}

// Verify implements replica.Verifier.
func (l *liveBroker) Verify(ctx context.Context, q replica.Verification) []error {
	return l.transactions.Verify(ctx, q)
}

func (l *liveBroker) writeMarkers(ctx context.Context,
	markers []coordinator.PartitionMarker) []error {
	return l.writeMarkersOver(ctx, nil, markers)
}

// writeMarkersOver writes transaction markers. They have arrived over link k, or come from this
// broker if k is nil.
func (l *liveBroker) writeMarkersOver(ctx context.Context, k *coordinatorLink,
	markers []coordinator.PartitionMarker) []error {
	var superseded func() bool
	if k != nil {
		newest := &l.senders[k.from.id]
		newest.Store(max(newest.Load(), k.number))
		superseded = func() bool { return newest.Load() > k.number }
	}
	all := make([]replica.Marker, 0, len(markers))
	for _, m := range markers {
		all = append(all, replica.Marker{ID: m.Partition, End: logstore.EndTxn{
			ProducerID: m.Producer.ID, ProducerEpoch: m.Producer.Epoch, Commit: m.Commit,
			CoordinatorEpoch: m.CoordinatorEpoch, Version: m.Version, Superseded: superseded}})
	}
	return l.groups.WriteMarkers(ctx, all)
}

// coordinatorLink is a connection from a coordinator to another broker.
type coordinatorLink struct {
	from, to *liveBroker
	number   uint64 // higher than the numbers of earlier links
}

func (l *liveBroker) connectCoordinator(ctx context.Context,
	to metadata.Broker) (coordinator.Peer, error) {
	if err := l.w.net.send(ctx, l.id, to.ID); err != nil {
		return nil, err
	}
	other := l.w.brokers[to.ID].live.Load()
	if l.dead.Load() || other == nil || other.image.Load() == nil {
		return nil, errUnreachable
	}
	if err := l.w.net.send(ctx, to.ID, l.id); err != nil {
		return nil, err
	}
	return &coordinatorLink{l, other, l.w.exactlyOnce.links.Add(1)}, nil
}

// exchange sends a request, which the function do serves, and waits for the response. Once sent, a
// request arrives even if its sender no longer waits for the response or has ended meanwhile; it is
// then a late frame. Some connections break, and the request arrives seconds later. Some responses
// take long, and requests over other connections overtake them.
func exchange[T any](ctx context.Context, k *coordinatorLink,
	do func(context.Context) T) (response T, err error) {
	type answer struct {
		response T
		err      error
	}
	if k.from.dead.Load() {
		return response, errLost
	}
	done := make(chan answer, 1)
	w := k.from.w
	late, slow := w.exactlyOnce.lateFrame(15), w.exactlyOnce.lateFrame(5)
	if late > 0 {
		done <- answer{err: io.ErrUnexpectedEOF}
	}
	w.spawn(func() {
		var a answer
		if late > 0 && sleep(w.ctx, late) != nil {
			return
		}
		a.err = w.net.send(w.ctx, k.from.id, k.to.id)
		if a.err == nil && k.to.dead.Load() {
			a.err = io.ErrUnexpectedEOF
		}
		if a.err == nil {
			a.response = do(k.to.ctx)
			_ = sleep(w.ctx, slow)
			a.err = w.net.send(w.ctx, k.to.id, k.from.id)
		}
		if a.err == nil && k.to.dead.Load() {
			a.err = io.ErrUnexpectedEOF
		}
		if late == 0 {
			done <- a
		}
	})
	select {
	case a := <-done:
		return a.response, a.err
	case <-ctx.Done():
		return response, ctx.Err()
	}
}

// lateFrame returns the delay of a late frame: how much later than the break of its connection a
// request arrives, or how much later than usual a response arrives. It returns 0 for a frame that
// arrives in time, which is the case for all but one in n frames.
func (e *exactlyOnce) lateFrame(n int) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.w.isHealed() || e.mu.random.IntN(n) > 0 {
		return 0
	}
	return time.Duration(1+e.mu.random.IntN(2000)) * time.Millisecond
}

// WriteMarkers implements coordinator.Peer.
func (k *coordinatorLink) WriteMarkers(ctx context.Context,
	markers []coordinator.PartitionMarker) ([]error, error) {
	return exchange(ctx, k, func(ctx context.Context) []error {
		return k.to.writeMarkersOver(ctx, k, markers)
	})
}

// Verify implements coordinator.Peer.
func (k *coordinatorLink) Verify(ctx context.Context,
	questions []replica.Verification) ([][]error, error) {
	return exchange(ctx, k, func(ctx context.Context) (all [][]error) {
		for _, q := range questions {
			all = append(all, k.to.transactions.VerifyHere(ctx, q))
		}
		return all
	})
}

// KnownProducers implements coordinator.Peer. It is not called, because no transaction hangs.
func (k *coordinatorLink) KnownProducers(context.Context, []int64) (coordinator.KnownProducers,
	error) {
	return coordinator.KnownProducers{}, errUnreachable
}

// Close implements coordinator.Peer.
func (k *coordinatorLink) Close() error { return nil }

// isFinal reports whether an error of a transactional request is permanent: repeating the request
// cannot succeed.
func isFinal(err error) bool {
	for _, final := range []error{txn.ErrFenced, txn.ErrInvalidMapping,
		txn.ErrInvalidState, logstore.ErrInvalidProducerEpoch, logstore.ErrInvalidTxnState,
		logstore.ErrOutOfOrderSequence, replica.ErrNotInTransaction,
		replica.ErrInvalidProducerIDMapping} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}
