package broker

import (
	"errors"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/scrub"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/pressure"
)

// errDamaged is the cause of a log that is stopped because a segment at rest is damaged.
var errDamaged = errors.New("damaged segment")

func (b *Broker) newScrub() *scrub.Scrubber {
	return scrub.New(b.store, scrub.Options{FS: b.opts.FS, Dir: b.opts.DataDir, Logger: b.logger,
		Busy: func() bool {
			return b.cleaner.Busy() || b.volumes.state.Load().level >= pressure.Clean
		},
		Damaged: b.damaged,
	})
}

// damaged is called by the scrub when the records of a segment are damaged. The log stops if the
// partition has enough in-sync replicas without it; if this broker leads, another one is elected.
// Otherwise the log continues: its other records remain available (ADR 0385).
func (b *Broker) damaged(log *logstore.Log, base int64, places []inspect.Damage) {
	switch {
	case log.Fault() != nil:
	case dispensable(b.image(), log.ID(), b.opts.NodeID):
		log.StopDamaged(fmt.Errorf("%w: %v", errDamaged, places[0]))
	default:
		b.logger.Error("damaged log stays online: too few other replicas are in sync",
			"partition", log.ID(), "segment", base)
	}
}

// dispensable reports whether the partition has minInSyncReplicas without the broker self.
func dispensable(image *metadata.Image, id logstore.PartitionID, self int32) bool {
	topic := image.Topic(id.Topic)
	if topic == nil || int(id.Index) >= len(topic.Partitions) {
		return false
	}
	p := topic.Partitions[id.Index]
	others := 0
	for _, member := range p.ISR {
		_, up := image.Broker(member)
		if member != self && up && !slices.ContainsFunc(p.Fenced,
			func(fenced metadata.InSync) bool { return fenced.Broker == member }) {
			others++
		}
	}
	return others >= max(1, topic.Settings.MinInSyncReplicas)
}
