package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/metadata"
)

// ErrUnknownCoordinators is returned by Known if some transaction coordinators have not answered.
var ErrUnknownCoordinators = errors.New("not all transaction coordinators have answered")

// KnownProducers is one broker's answer to the question which of the given producer ids belong to a
// transactional id.
type KnownProducers struct {
	// Open contains the known producer ids. A value is true if a transaction of the producer has not
	// ended in all its partitions.
	Open map[int64]bool
	// Loaded contains the partitions of __transaction_state that this answer covers.
	Loaded []StatePartition
}

// StatePartition is a partition of __transaction_state that a broker coordinates.
type StatePartition struct{ Index, LeaderEpoch int32 }

// KnownHere returns those of the given producer ids that this broker knows as a transaction
// coordinator. The answer depends only on records below the high watermark, and does not cover
// partitions that are not loaded.
func (t *Transactions) KnownHere(ctx context.Context, producers []int64) (KnownProducers, error) {
	known := KnownProducers{Open: map[int64]bool{}}
	filter := transaction.Filter{Producers: producers, OpenFor: -1}
	for _, s := range t.runtime.Shards() {
		listed, err := runtime.Call(ctx, s, func(now time.Time, s *txnShard) (
			[]transaction.Description, transaction.Output, error) {
			return s.List(now, filter), transaction.Output{}, nil
		})
		switch {
		case errors.Is(err, ErrNotCoordinator) || errors.Is(err, ErrLoading):
			continue
		case err != nil:
			return known, err
		}
		known.Loaded = append(known.Loaded, StatePartition{s.Partition(), s.Epoch()})
		for i := range listed {
			known.add(&listed[i])
		}
	}
	return known, nil
}

func (k *KnownProducers) add(d *transaction.Description) {
	id := d.Producer.ID
	k.Open[id] = k.Open[id] || d.Phase.Open()
}

// Known asks all transaction coordinators in the cluster about producer ids. The result contains
// the known ids, with the same values as in KnownProducers.Open. For each partition of
// __transaction_state, the leader in the metadata image must answer, in the image's leader epoch,
// because a previous coordinator may lack the latest transactions. Otherwise Known fails with
// ErrUnknownCoordinators. If the image is outdated, the answer may be as old as the image.
func (t *Transactions) Known(ctx context.Context, producers []int64) (map[int64]bool, error) {
	image, all := t.opts.Image(), KnownProducers{Open: map[int64]bool{}}
	topic := image.Topic(metadata.TransactionsTopic)
	switch {
	case topic == nil && len(image.Unresolved) == 0:
		return all.Open, nil // no transactional id has ever been used
	case topic == nil || len(topic.Partitions) == 0:
		return nil, fmt.Errorf("%w: the partitions of %s are unknown", ErrUnknownCoordinators,
			metadata.TransactionsTopic)
	}
	var asked []int32
	for _, p := range topic.Partitions {
		if slices.Contains(asked, p.Leader) {
			continue
		}
		asked = append(asked, p.Leader)
		known, err := t.askKnown(ctx, image, p.Leader, producers)
		if err != nil {
			return nil, fmt.Errorf("%w: ask broker %d: %w", ErrUnknownCoordinators, p.Leader, err)
		}
		all.Loaded = append(all.Loaded, known.Loaded...)
		for id, open := range known.Open {
			all.Open[id] = all.Open[id] || open
		}
	}
	for _, p := range topic.Partitions {
		if !slices.Contains(all.Loaded, StatePartition{p.Index, p.LeaderEpoch}) {
			return nil, fmt.Errorf("%w: partition %d is not loaded in leader epoch %d",
				ErrUnknownCoordinators, p.Index, p.LeaderEpoch)
		}
	}
	return all.Open, nil
}

func (t *Transactions) askKnown(ctx context.Context, image *metadata.Image, broker int32,
	producers []int64) (KnownProducers, error) {
	if broker == t.opts.NodeID {
		return t.KnownHere(ctx, producers)
	}
	to, up := image.Broker(broker)
	if !up {
		return KnownProducers{}, errNoLeader
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	peer, err := t.opts.Connect(ctx, to)
	if err != nil {
		return KnownProducers{}, err
	}
	known, err := peer.KnownProducers(ctx, producers)
	return known, errors.Join(err, peer.Close())
}
