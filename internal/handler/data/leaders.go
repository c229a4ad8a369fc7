package data

import (
	"errors"
	"slices"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// A response to a request that was sent to the wrong broker, or with an old leader epoch, names the
// current leader (KIP-951). The client then needs no Metadata request to find it.

// leaderHint is the leader of a partition and the leader epoch.
type leaderHint struct {
	id, epoch int32
}

// isLeaderError reports whether err means that the client does not know the current leader.
func isLeaderError(err error) bool {
	return errors.Is(err, replica.ErrNotLeader) || errors.Is(err, replica.ErrFencedLeaderEpoch)
}

// hint returns the leader of a partition. While an image is applied, replicas already have the
// roles of that image, but img is still the previous image. So the later leader epoch of the two is
// used, because a client backs off if the response names the earlier leader. The result ok is false
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

// leaders contains the ids of the leaders that a response names.
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
