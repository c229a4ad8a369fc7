package replica

import (
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/metadata"
)

// role is this broker's role in a partition according to one metadata image. It is immutable,
// except for the leaderState to which it points.
type role struct {
	epoch int32 // leader epoch of the partition, whichever broker leads
	// unprovenEpoch is the latest leader epoch whose leader was elected without proof that it had
	// every acknowledged record; 0 if there is none. All roles of a leader epoch have the same value.
	unprovenEpoch int32
	refusal       error // reason why this broker does not serve as the leader; nil if it does
	leader        int32 // metadata.NoBroker if the partition has no leader
	minISR        int
	replicas      []int32
	adding        []int32      // replicas that the current reassignment adds; only set for leaders
	leaderState   *leaderState // nil unless this broker leads
	inSync        bool         // true if the image's ISR contains this broker in its current epoch
	// inISR is set if the image's ISR contains this broker in its current or an earlier broker epoch.
	inISR bool
	// incarnation is this broker's replica incarnation id in the image. It is "" if the broker is not
	// a replica, or if no first leader has been elected. logIncarnation is the incarnation id for
	// which the log was created; fetches report it to the leader.
	incarnation, logIncarnation string
	// lossUnreported is set if the log has lost records, and the image does not take the loss into
	// account yet.
	lossUnreported bool
	// pushHighWatermark is set if the leader sends a new high watermark to followers at once, because
	// consumers may read from them.
	pushHighWatermark bool
}

// newRole returns the role that an image assigns to a broker, without the fields that depend on the
// log.
func newRole(img *metadata.Image, topic *metadata.Topic, p *metadata.Partition, node int32) *role {
	r := &role{
		epoch:             p.LeaderEpoch,
		unprovenEpoch:     p.UnprovenEpoch,
		leader:            p.Leader,
		minISR:            topic.Settings.MinInSyncReplicas,
		replicas:          p.Replicas,
		incarnation:       p.ReplicaIncarnation(node),
		pushHighWatermark: hasSeveralRacks(img),
	}
	if p.Target != nil && p.Leader == node {
		r.adding, _ = p.Moving()
	}
	index := slices.Index(p.ISR, node)
	r.inISR = index >= 0
	r.inSync = r.inISR
	if self, up := img.Broker(node); r.inISR && up && index < len(p.ISREpochs) {
		r.inSync = p.ISREpochs[index] == self.Epoch
	}
	return r
}

func hasSeveralRacks(img *metadata.Image) bool {
	return slices.ContainsFunc(img.Brokers,
		func(b metadata.Broker) bool { return b.Rack != img.Brokers[0].Rack })
}

// check fails unless this broker leads the partition in the leader epoch that the client sent (-1:
// any). Like Kafka, it checks the epoch first, because a client with an old epoch has old metadata,
// whichever broker leads.
func (r *role) check(epoch int32) error {
	if err := r.checkEpoch(epoch); err != nil {
		return err
	}
	return r.refusal
}

func (r *role) checkEpoch(epoch int32) error {
	switch {
	case epoch >= 0 && epoch < r.epoch:
		return fmt.Errorf("%w: client has %d, partition %d", ErrFencedLeaderEpoch, epoch, r.epoch)
	case epoch > r.epoch:
		return fmt.Errorf("%w: client has %d, partition %d", ErrUnknownLeaderEpoch, epoch, r.epoch)
	}
	return nil
}

// mayFollow reports whether the partition has a leader, and this broker refuses to lead only
// because it is not that leader.
func (r *role) mayFollow() bool {
	return r.refusal == ErrNotLeader && //nolint:errorlint // set to exactly this value
		r.leader != metadata.NoBroker
}

// follows reports whether this broker, whose id is node, copies another broker's log.
func (r *role) follows(node int32) bool { return r.mayFollow() && r.leader != node }

// lostSince reports whether acknowledged records of the given leader epoch, or of an earlier one,
// may have been lost, because the leader of a later epoch was elected without proof that it had all
// of them.
func (r *role) lostSince(epoch int32) bool { return r.unprovenEpoch > epoch }
