package replica

import (
	"errors"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// ErrLostLog means that this broker neither leads nor follows a partition, because its log has lost
// records that were on the disk (logstore.Log.Loss). This state lasts until the metadata show the
// loss, or longer if this log may be the last copy.
var ErrLostLog = fmt.Errorf("%w: the log has lost records", ErrNotLeader)

// lossUnreported reports whether the log has lost records and the image was made without knowledge
// of the loss, because it contains the same replica incarnation id as when the loss was found. If
// the image elects this broker, the election is not valid, and neither is this broker's membership
// in the ISR (ADR 0315).
func (p *partition) lossUnreported(r *role) bool {
	if p.log == nil {
		return false
	}
	incarnation, lost := p.log.Notes().LossOf()
	return lost && incarnation == r.incarnation
}

// resolveLoss decides what happens to a log that has lost records. While the image contains the
// same incarnation id as when the loss was found, the broker waits, and Served reports the loss.
// Another id shows that the loss was taken into account. Then there are three cases:
//
//   - This broker leads: no other replica has the records, and the loss was accepted. The log keeps
//     the remaining records.
//   - Another broker leads, and this broker is not in the ISR. The log is discarded, because its
//     records are not necessarily a part of the leader's log: a segment in between may be missing,
//     or the log may contain a value whose tombstone all other replicas have already removed.
//   - Otherwise the broker waits, because its log may be the last copy.
//
// The loss is removed before the new id is stored. After a crash in between, the log is treated as
// one of an earlier incarnation, with the same result. The caller holds changing.
func (p *partition) resolveLoss(r *role) error {
	switch {
	case p.lossUnreported(r):
		r.refusal, r.lossUnreported = p.lossError(), true
		return nil
	case r.leaderState != nil:
		p.logger.Warn("leading without records that the log has lost", "partition", p.id,
			"cause", p.log.Notes().Loss(), "logStart", p.log.LogStart(), "logEnd", p.log.LogEnd())
	case r.mayFollow() && !r.inISR:
		p.logger.Info(MessageDiscardLost, "partition",
			p.id, "cause", p.log.Notes().Loss(), "logEnd", p.log.LogEnd(), "leader", r.leader)
		p.log.Compaction().Progress.SetReplicasTombstoneClean(0)
		if err := p.resetLog(0); err != nil {
			return fmt.Errorf("discard a log that has lost records: %w", err)
		}
	default:
		r.refusal = p.lossError()
		return nil
	}
	if err := p.log.Notes().SetLoss(""); err != nil {
		return err
	}
	return p.adoptIncarnation(r)
}

func (p *partition) lossError() error {
	return fmt.Errorf("%w: %s. If no other replica has them, put the log directory back while this "+
		"broker is stopped, or leave it as it is, and accept the loss", ErrLostLog, p.log.Notes().Loss())
}

// LossesOf returns the lost logs of a store, which the metadata store records before it registers
// the broker. It returns nil if there are none. Each lost log gets a new replica incarnation id.
// cluster is the id of the cluster to which the logs belong.
func LossesOf(store *logstore.Store, cluster string) (*metadata.Losses, error) {
	lost, err := store.LostLogs()
	if err != nil {
		return nil, fmt.Errorf("list logs that have lost records: %w", err)
	}
	if len(lost) == 0 {
		return nil, nil
	}
	losses := &metadata.Losses{Cluster: cluster}
	for _, log := range lost {
		losses.Logs = append(losses.Logs, metadata.LostLog{
			Topic: log.ID.Topic, TopicID: metadata.ID(log.Topic), Partition: log.ID.Index,
			ReplicaIncarnation: log.ReplicaIncarnation, Next: metadata.NewID().Tag(),
		})
	}
	return losses, nil
}

// recordedAs returns the replica incarnation ids with which losses are recorded.
func recordedAs(losses *metadata.Losses) map[PartitionID]string {
	if losses == nil {
		return nil
	}
	next := make(map[PartitionID]string, len(losses.Logs))
	for _, lost := range losses.Logs {
		next[PartitionID{Topic: lost.Topic, Index: lost.Partition}] = lost.Next
	}
	return next
}

// recordedIncarnation is stored in place of the replica incarnation id that a loss concerns, if the
// loss was recorded before the first image. No replica has this id, so every image counts as made
// with knowledge of the loss.
const recordedIncarnation = "(recorded)"

// stampLoss stores the replica incarnation id in the first image after a loss was found. No
// decision in this image, or in an earlier one, can have taken the loss into account. This id can
// differ from the log's id: the broker may have been elected with a new id and have stopped before
// it stored that id.
//
// The exception is an image that contains the id with which the metadata store has recorded the
// loss before the broker registered. A loss that is found later is not recorded, so the id is used
// once.
func (p *partition) stampLoss(incarnation string) error {
	recordedAs := p.recordedAs
	p.recordedAs = ""
	if _, stamped := p.log.Notes().LossOf(); stamped || p.log.Notes().Loss() == "" {
		return nil
	}
	if recordedAs != "" && recordedAs == incarnation {
		incarnation = recordedIncarnation
	}
	return p.log.Notes().StampLoss(incarnation)
}

// leaderLost reports whether a fetch proves that this leader has lost records: the follower's high
// watermark is above the end of the leader's log. A clean election never chooses such a leader.
// After an unclean election the fetch proves nothing, because the records below the follower's high
// watermark may no longer be part of the partition.
func (p *partition) leaderLost(r *role, want *FetchPartition) bool {
	return want.HighWater > p.log.LogEnd() && !r.lostSince(want.LastEpoch)
}

// noteLeaderLost stores that this leader has lost records, and ends its leadership.
func (s *Set) noteLeaderLost(p *partition, r *role, want *FetchPartition, follower int32) {
	cause := fmt.Sprintf("the log ends at %d, and broker %d knows of the high watermark %d",
		p.log.LogEnd(), follower, want.HighWater)
	declared, err := s.declareLost(p, r, cause)
	if declared {
		s.logger.Error("leader has lost acknowledged records that a follower has", "partition", p.id,
			"leaderEpoch", r.epoch, "logEnd", p.log.LogEnd(), "follower", follower,
			"highWatermark", want.HighWater)
	}
	if err != nil {
		s.logger.Warn("failed to store the loss of records", "partition", p.id, "error", err)
	}
}

// declareLost stores that the log of a partition has lost records, and ends the leadership of this
// broker. The next image is applied to the partition even if it is unchanged, and Served then
// reports the loss. The result declared is false if another call has done the same.
func (s *Set) declareLost(p *partition, r *role, cause string) (declared bool, err error) {
	if !p.foundLost.CompareAndSwap(false, true) {
		return false, nil
	}
	if r.leaderState != nil {
		r.leaderState.end()
	}
	if err := p.log.Notes().SetLoss(cause); err != nil {
		p.foundLost.Store(false)
		return true, err
	}
	s.lostLog()
	return true, nil
}

// DeclareLost requests that the log of a partition leaves the ISR, is discarded and is copied
// again, because it has damaged records that cannot be replaced. The log still serves meanwhile,
// and is kept if the partition needs this replica. The metadata store decides that in the same
// compare-and-swap that removes the replica from the ISR (ADR 0353). The request is repeated with
// each image until the store grants it.
func (s *Set) DeclareLost(id PartitionID, cause string) {
	p := s.view.Load().partitions[id]
	if p == nil || p.log == nil || p.damaged.Swap(true) {
		return
	}
	s.logger.Warn("damaged records cannot be replaced; requested to copy the log again",
		"partition", id, "cause", cause)
	s.lostLog()
}

// damagedReport returns the request of DeclareLost for a partition in an image. ok is false if
// there is none, or if the damaged segments were removed or repaired meanwhile.
func (p *partition) damagedReport(a assignedPartition) (request metadata.Served, ok bool) {
	r := p.role.Load()
	if p.log == nil || !p.damaged.Load() || r.incarnation != r.logIncarnation {
		return metadata.Served{}, false
	}
	if !slices.ContainsFunc(p.log.AtRest(), logstore.AtRest.Damaged) {
		p.damaged.Store(false)
		return metadata.Served{}, false
	}
	return metadata.Served{Topic: a.topic.ID, Partition: a.partition.Index, Damaged: true,
		ReplicaIncarnation: r.incarnation, MinInSync: r.minISR}, true
}

// errTruncatesCommitted is the error of a follower whose leader lacks records that were below the
// follower's high watermark. The follower keeps these records, and does not follow this leader.
var errTruncatesCommitted = errors.New("the leader lacks records below this replica's high " +
	"watermark, so it has lost them; this replica keeps its log and does not follow")
