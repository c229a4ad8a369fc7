package handler

import (
	"errors"
	"slices"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// A request that came to the wrong broker, or with an old leader epoch, is answered with who leads
// (KIP-951): its client need not ask for metadata first.

// leaderHint is who leads a partition, and since when.
type leaderHint struct {
	id, epoch int32
}

// isLeaderError tells whether the client that gets the error has to find the leader.
func isLeaderError(err error) bool {
	return errors.Is(err, replica.ErrNotLeader) || errors.Is(err, replica.ErrFencedLeaderEpoch)
}

// hint returns who leads a partition; ok is false if nobody does, as far as is known.
func hint(img *metadata.Image, id replica.PartitionID) (leader leaderHint, ok bool) {
	topic := img.Topic(id.Topic)
	if topic == nil || id.Index < 0 || int(id.Index) >= len(topic.Partitions) {
		return leaderHint{}, false
	}
	p := topic.Partitions[id.Index]
	_, up := img.Broker(p.Leader)
	return leaderHint{p.Leader, p.LeaderEpoch}, up
}

// leaders are the brokers that an answer names as leaders.
type leaders []int32

func (l *leaders) add(id int32) {
	if !slices.Contains(*l, id) {
		*l = append(*l, id)
	}
}

// in returns the endpoints on a listener of those that are up.
func (l *leaders) in(img *metadata.Image, listener string) (all []node) {
	for _, id := range *l {
		if b, up := img.Broker(id); up {
			if n, ok := nodeOn(&b, listener); ok {
				all = append(all, n)
			}
		}
	}
	return all
}
