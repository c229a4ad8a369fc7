// Package damage replaces damaged records in a broker's logs with the records of other brokers.
package damage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/handler/data"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/repair"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

const (
	// timeout limits the time to connect to another replica, and the duration of each read.
	timeout = 30 * time.Second
	// bytesMax limits the size of each read from another replica, in bytes.
	bytesMax = 1 << 20
)

// Replacer replaces damaged records with the records of other in-sync replicas.
type Replacer struct {
	NodeID int32
	Image  func() *metadata.Image
	Dial   func(ctx context.Context, to metadata.Broker) (*wire.Peer, error)
	// DeclareLost requests that the replica leaves the ISR and copies the leader's log again, as soon
	// as the partition can do without it (replica.Set.DeclareLost).
	DeclareLost func(id logstore.PartitionID, cause string)
}

// Replace replaces a segment's damaged records with the records of the first other in-sync replica
// that has them. The leader and the ISR remain the same in the meantime, because the log does not
// serve the damaged batches.
//
// If these records cannot be replaced, Replace requests that the whole log is copied again. See ADR
// 0389.
func (r Replacer) Replace(ctx context.Context, log *logstore.Log, damaged logstore.AtRest,
	places []inspect.Damage, pace repair.Pace) error {
	if err := log.Fault(); err != nil {
		return err // only a restart can recover the log
	}
	image := r.Image()
	err := fmt.Errorf("%w: no other replica is in sync", repair.ErrSource)
	others := othersInSync(image, log.ID(), r.NodeID)
	if slices.ContainsFunc(places, func(place inspect.Damage) bool {
		return strings.HasSuffix(place.File, segment.TxnIndexExtension)
	}) {
		err, others = fmt.Errorf("%w: its transaction index is damaged, too",
			repair.ErrUnknownContent), nil
	}
	for _, from := range others {
		err = r.replaceFrom(ctx, from, image.Topic(log.ID().Topic), log.ID().Index,
			damaged, pace)
		if !errors.Is(err, repair.ErrSource) {
			break
		}
	}
	if errors.Is(err, repair.ErrUnknownContent) {
		r.DeclareLost(log.ID(), places[0].String())
	}
	return err
}

// replaceFrom replaces a segment's damaged records with the records of one other replica.
func (r Replacer) replaceFrom(ctx context.Context, from metadata.Broker, topic *metadata.Topic,
	partition int32, damaged logstore.AtRest, pace repair.Pace) error {
	dialing, cancel := context.WithTimeout(ctx, timeout)
	peer, err := r.Dial(dialing, from)
	cancel()
	if err != nil {
		return fmt.Errorf("%w: connect to broker %d: %w", repair.ErrSource, from.ID, err)
	}
	defer func() { _ = peer.Close() }()
	return damaged.ReplaceRecords(ctx, recordSource{peer, topic.ID, partition, from.ID}, pace)
}

// recordSource is a replica on another broker.
type recordSource struct {
	peer      *wire.Peer
	topic     metadata.ID
	partition int32
	broker    int32
}

// Read implements repair.Source.
func (s recordSource) Read(ctx context.Context, offset int64) (batches []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := s.peer.Do(ctx, data.RecordsCall(s.topic, s.partition, offset, bytesMax))
	if err == nil {
		batches, err = data.DecodeRecords(body)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: read offset %d from broker %d: %w", repair.ErrSource, offset,
			s.broker, err)
	}
	return batches, nil
}

// othersInSync returns the brokers other than self that are up, in the partition's ISR and not
// fenced there. The leader comes first.
func othersInSync(image *metadata.Image, id logstore.PartitionID, self int32) []metadata.Broker {
	topic := image.Topic(id.Topic)
	if topic == nil || int(id.Index) >= len(topic.Partitions) {
		return nil
	}
	p := topic.Partitions[id.Index]
	var others []metadata.Broker
	for _, member := range p.ISR {
		broker, up := image.Broker(member)
		if member == self || !up || slices.ContainsFunc(p.Fenced,
			func(fenced metadata.InSync) bool { return fenced.Broker == member }) {
			continue
		}
		if member == p.Leader {
			others = slices.Insert(others, 0, broker)
		} else {
			others = append(others, broker)
		}
	}
	return others
}
