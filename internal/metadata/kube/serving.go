package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// servingTimeout limits the duration of the report about one PartitionSet's partitions. Without it,
// an API server that accepts requests but does not respond would delay the reports about other
// sets.
const servingTimeout = 10 * time.Second

// ReportServing implements metadata.Store. It records the partitions in served, with one write for
// each PartitionSet that does not contain the report yet. If this incarnation no longer serves a
// partition that it served before, because the log has stopped, ReportServing records that the
// partition is not served. It removes this broker from the ISR of every partition whose log has
// stopped, whether the broker led or followed it, if another in-sync replica can lead. It also
// records losses of logs. The error names the sets that could not be written; the caller retries.
func (s *Store) ReportServing(ctx context.Context, broker int32, served []metadata.Served) error {
	self, err := s.registered(broker)
	if err != nil {
		return err
	}
	all, err := s.resources(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.times.serving)
	defer cancel()
	pending := s.reported.pending(all, served, member(self), s.brokerStates())
	faults := make(chan error, len(pending))
	var writers sync.WaitGroup
	for set, reports := range pending {
		writers.Go(func() {
			if err := s.writeReports(ctx, set, reports, member(self)); err != nil {
				faults <- fmt.Errorf("report %d partitions of PartitionSet %s: %w", len(reports),
					set, err)
			}
		})
	}
	writers.Wait()
	close(faults)
	var failed []error
	for fault := range faults {
		failed = append(failed, fault)
	}
	return errors.Join(failed...)
}

func (s *Store) writeReports(ctx context.Context, set string, reports []report,
	self placement.InSyncReplica) error {
	err := s.writer.ChangeStatus(ctx, set, func(set *partitionset.Set) error {
		for _, r := range reports {
			r.apply(set, self, s.brokerStates())
		}
		return nil
	})
	if err == nil {
		s.reported.record(reports)
	}
	return err
}

// registered returns this broker with the epoch of its registration. It fails if this broker is not
// registered or has another id.
func (s *Store) registered(broker int32) (metadata.Broker, error) {
	self := s.self.Load()
	if self == nil || self.ID != broker {
		return metadata.Broker{}, fmt.Errorf("broker %d is not registered", broker)
	}
	return *self, nil
}

func member(b metadata.Broker) placement.InSyncReplica {
	return placement.InSyncReplica{Broker: b.ID, Epoch: b.Epoch}
}

// report contains what this broker reports about one partition.
type report struct {
	location place
	// epoch is the leader epoch in which the broker serves the partition. If ahead is set, it is the
	// latest leader epoch in the log.
	epoch int32
	ahead bool // see metadata.Served
	lost  bool // see metadata.Served
	// incarnation is the lost log's replica incarnation id.
	incarnation string
	stopped     bool // true if the partition was served in epoch and is no longer served
	logStopped  bool // metadata.Served.Stopped
	// discard is set for a replica that is metadata.Served.Damaged.
	discard *placement.Discard
}

// apply records a report in a set. It changes nothing if another election has taken place since.
// After the image of that election, the broker reports again.
func (r report) apply(set *partitionset.Set, self placement.InSyncReplica,
	brokers map[int32]placement.BrokerState) {
	switch {
	case !r.location.assigned(set):
	case r.discard != nil:
		set.DiscardLog(r.location.key, *r.discard, brokers)
	case r.ahead:
		set.ReportFoundEpoch(r.location.key, self.Broker, r.epoch)
	case r.lost:
		set.ReportLostLog(r.location.key, self.Broker, r.incarnation,
			partitionset.Tag(metadata.NewID()))
	case r.logStopped:
		set.StopLog(r.location.key, self, brokers)
	case r.stopped:
		// The operator elects another leader once this broker has left the ISR. The remaining members
		// have every acknowledged record.
		set.StopServing(r.location.key, self, r.epoch, brokers)
	default:
		set.Serve(r.location.key, self, r.epoch)
	}
}

// isRecorded reports whether the report needs no write: the state already contains it, or another
// election has made it obsolete.
func (r report) isRecorded(state *partitionset.State, self placement.InSyncReplica) bool {
	switch {
	case r.lost:
		return state == nil || state.ReplicaIncarnations[self.Broker] != r.incarnation
	case r.ahead:
		return state == nil || state.Leader != self.Broker || state.LeaderEpoch > r.epoch ||
			state.FoundEpoch != nil && *state.FoundEpoch >= r.epoch
	case !state.Leads(self, r.epoch):
		return true
	}
	return state.Serving != r.stopped
}

// reportedPartitions contains the reports that this broker has written. Until the watch has
// delivered a written report, the next report must not be compared with the watched state.
type reportedPartitions struct {
	mu struct {
		sync.Mutex
		byKey map[partitionset.Key]report // last report about each served partition
	}
}

func (p *reportedPartitions) record(reports []report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.byKey == nil {
		p.mu.byKey = map[partitionset.Key]report{}
	}
	for _, r := range reports {
		if !r.ahead && !r.lost && !r.logStopped && r.discard == nil {
			p.mu.byKey[r.location.key] = r
		}
	}
}

// pending returns the reports that must be written, grouped by the name of their PartitionSet.
func (p *reportedPartitions) pending(all resources, served []metadata.Served,
	self placement.InSyncReplica,
	brokers map[int32]placement.BrokerState) map[string][]report {
	p.mu.Lock()
	defer p.mu.Unlock()
	pending := map[string][]report{}
	directory := all.directory(nil)
	p.forgetLocked(directory)
	serves := map[partitionset.Key]bool{}
	for _, one := range served {
		location, ok := directory.place(one.Topic, one.Partition)
		if !ok {
			continue // the Topic no longer exists
		}
		if one.Stopped {
			if entry, _ := all.sets.find(location.key); !entry.State.KnowsStop(self, brokers) {
				pending[location.set] = append(pending[location.set],
					report{location: location, logStopped: true})
			}
			continue
		}
		if one.Damaged {
			if r := discardReport(location, self.Broker, one); r.discards(all, brokers) {
				pending[location.set] = append(pending[location.set], r)
			}
			continue
		}
		serves[location.key] = true
		r := report{location: location, epoch: one.LeaderEpoch, ahead: one.Ahead, lost: one.Lost,
			incarnation: one.ReplicaIncarnation}
		entry, _ := all.sets.find(location.key)
		last, known := p.mu.byKey[location.key]
		reverted := known && !r.ahead && !r.lost && last.stopped && last.epoch == r.epoch
		if !r.isRecorded(entry.State, self) || reverted {
			pending[location.set] = append(pending[location.set], r)
		}
	}
	for _, r := range p.stoppedLocked(all, directory, self) {
		if !serves[r.location.key] {
			pending[r.location.set] = append(pending[r.location.set], r)
		}
	}
	return pending
}

// discardReport returns the report about a damaged replica.
func discardReport(location place, broker int32, one metadata.Served) report {
	return report{location: location, discard: &placement.Discard{Broker: broker,
		Incarnation: one.ReplicaIncarnation, Next: partitionset.Tag(metadata.NewID()),
		MinInSync: one.MinInSync}}
}

// discards reports whether the report about a damaged replica changes the partition now, as far as
// this broker knows.
func (r report) discards(all resources, brokers map[int32]placement.BrokerState) bool {
	entry, _ := all.sets.find(r.location.key)
	return entry.State != nil && r.discard.Changes(entry.State.Partition, brokers)
}

// forgetLocked removes the reports about topics that do not exist. If a Topic is deleted and
// created again, it has the same keys, and its leader epochs start again. A report about the
// deleted Topic must not be used for the new one.
func (p *reportedPartitions) forgetLocked(directory *directory) {
	tags := make(map[string]string, len(directory.topics))
	for _, topic := range directory.topics {
		tags[topic.name] = topic.tag
	}
	maps.DeleteFunc(p.mu.byKey, func(key partitionset.Key, last report) bool {
		return tags[key.Topic] != last.location.tag
	})
}

// stoppedLocked returns reports that partitions are no longer served, for all partitions that this
// incarnation has reported as served and that are not in served any more. Such a report results
// from an image that is not later than the image from which the caller computed its list of served
// partitions. stoppedLocked omits partitions without a Topic, because no image contains them.
func (p *reportedPartitions) stoppedLocked(all resources, directory *directory,
	self placement.InSyncReplica) (stopped []report) {
	for _, topic := range all.topics {
		topicID, err := id(topic.UID)
		if err != nil {
			continue
		}
		for index := range topic.Spec.Partitions {
			entry, _ := all.sets.find(partitionset.Key{Topic: topic.Name, Index: index})
			state := entry.State
			if state == nil || state.Leader != self.Broker {
				continue
			}
			location, ok := directory.place(topicID, index)
			if !ok || entry.Assignment == nil || entry.Assignment.Tag != location.tag {
				continue
			}
			last, known := p.mu.byKey[location.key]
			if known && last.epoch < state.LeaderEpoch {
				delete(p.mu.byKey, location.key)
				known = false
			}
			served := state.Serving
			if known && last.epoch == state.LeaderEpoch {
				served = !last.stopped
			}
			if served && state.Leads(self, state.LeaderEpoch) {
				stopped = append(stopped, report{location: location, epoch: state.LeaderEpoch, stopped: true})
			}
		}
	}
	return stopped
}
