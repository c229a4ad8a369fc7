package data

import (
	"errors"
	"slices"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// If a request was sent to the wrong broker or has an old leader epoch, the response contains the
// current leader (KIP-951), so that the client does not need a Metadata request.

// leaderHint is a partition's leader and leader epoch.
type leaderHint struct {
	id, epoch int32
}

// isLeaderError reports whether err means that the client does not know the current leader.
func isLeaderError(err error) bool {
	return errors.Is(err, replica.ErrNotLeader) || errors.Is(err, replica.ErrFencedLeaderEpoch)
}

// hint returns a partition's leader. While a new metadata image is being applied, replicas may
// already have their new roles, although img is the previous image. hint therefore uses the source
// with the higher leader epoch: a client backs off if the response names an old leader. ok is false
// if the partition does not exist or its leader is not up.
func hint(img *metadata.Image, replicas *replica.Set, id replica.PartitionID) (leader leaderHint,
	ok bool) {
	topic := img.Topic(id.Topic)
	if topic == nil || id.Index < 0 || int(id.Index) >= len(topic.Partitions) {
		return leaderHint{}, false
	}
	p := topic.Partitions[id.Index]
	leader = leaderHint{p.Leader, p.LeaderEpoch}
	known, epoch, ok := replicas.KnownLeader(id, topic.ID)
	if ok && epoch > leader.epoch {
		leader = leaderHint{known, epoch}
	}
	_, up := img.Broker(leader.id)
	return leader, up
}

// leaders contains the ids of the leaders in a response.
type leaders []int32

func (l *leaders) add(id int32) {
	if !slices.Contains(*l, id) {
		*l = append(*l, id)
	}
}

// in returns the leaders that are up and have an endpoint on the given listener.
func (l *leaders) in(img *metadata.Image, listener string) (all []api.Node) {
	for _, id := range *l {
		if b, up := img.Broker(id); up {
			if n, ok := api.NodeOn(&b, listener); ok {
				all = append(all, n)
			}
		}
	}
	return all
}
