package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

const (
	// servingWorkers is how many Partitions are written at the same time. A broker that returns may
	// have to report thousands of Partitions.
	servingWorkers = 4
	// servingAttempts is the number of attempts to write one Partition while other writers, such as
	// the operator, cause conflicts.
	servingAttempts = 5
	// servingTimeout bounds all attempts for one Partition together: an API server that accepts
	// requests and does not respond must not delay the reports about other Partitions.
	servingTimeout = 10 * time.Second
)

// ReportServing implements metadata.Store. For each partition in served, it writes servingEpoch
// unless the status already contains it. It also finds the partitions that this incarnation served
// before and does not serve any more, because their disk has failed. It clears their servingEpoch
// and, if another in-sync replica can lead, removes this broker from their ISR. The error names the
// Partitions that could not be written; the caller retries.
func (s *Store) ReportServing(ctx context.Context, broker int32, served []metadata.Served) error {
	self, err := s.registered(broker)
	if err != nil {
		return err
	}
	all, err := s.resources(ctx)
	if err != nil {
		return err
	}
	var faults struct {
		sync.Mutex
		all []error
	}
	var writers errgroup.Group
	writers.SetLimit(servingWorkers)
	pending := slices.DeleteFunc(slices.Concat(all.served(served), all.stopped(served, self)),
		func(p servedPartition) bool {
			return p.upToDate(p.resource.Status, self)
		})
	for _, partition := range pending {
		writers.Go(func() error {
			err := s.serve(ctx, self, partition)
			if len(pending) > servingWorkers {
				s.writes.throttle(ctx)
			}
			if err != nil {
				faults.Lock()
				defer faults.Unlock()
				faults.all = append(faults.all, err)
			}
			return nil
		})
	}
	_ = writers.Wait() // the errors are in faults
	return errors.Join(faults.all...)
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

// servedPartition is the report about one Partition.
type servedPartition struct {
	resource *v1alpha1.Partition
	// epoch is the leader epoch in which the partition is served. If ahead is set, it is the latest
	// leader epoch in the log.
	epoch     int32
	ahead     bool // see metadata.Served
	stopped   bool // the partition was served in epoch and is not served any more
	successor bool // set only if stopped is set: another broker can lead
}

// upToDate reports whether the status need not be written. Either the status already contains the
// report, or the leader epoch differs because of another election; the broker reports again after
// the image of that election.
func (p servedPartition) upToDate(status v1alpha1.PartitionStatus, self metadata.Broker) bool {
	if status.Leader != self.ID {
		return true
	}
	if p.ahead {
		return status.LeaderEpoch > p.epoch || status.FoundEpoch != nil &&
			*status.FoundEpoch >= p.epoch
	}
	return status.LeaderEpoch != p.epoch || servedBy(status, self, p.epoch) != p.stopped
}

// write writes the report into a Partition's status.
func (p servedPartition) write(to *v1alpha1.Partition, self metadata.Broker) {
	status := &to.Status
	if p.ahead {
		status.FoundEpoch = new(p.epoch)
		return
	}
	if !p.stopped {
		metadata.RecordServing(to, p.epoch)
		return
	}
	status.ServingEpoch = nil
	if p.successor {
		// The operator elects another leader when this broker has left the ISR. The remaining
		// members have every acknowledged record.
		metadata.RecordISR(status,
			slices.DeleteFunc(slices.Clone(status.ISR),
				func(r v1alpha1.InSyncReplica) bool { return r.Broker == self.ID }))
	}
}

// successorExists reports whether a broker other than self can lead: it is in sync in its current
// broker epoch and not in controlled shutdown.
func successorExists(status v1alpha1.PartitionStatus, self metadata.Broker,
	brokers map[int32]placement.BrokerState) bool {
	return slices.ContainsFunc(status.ISR, func(r v1alpha1.InSyncReplica) bool {
		other, ok := brokers[r.Broker]
		return r.Broker != self.ID && ok && other.Epoch == r.BrokerEpoch && !other.Leaving
	})
}

// served returns the reports about the partitions in the parameter served. It omits partitions
// whose Partition does not exist any more.
func (r resources) served(served []metadata.Served) []servedPartition {
	topics := r.resourceNames()
	byName := map[string]*v1alpha1.Partition{}
	for _, p := range r.partitions {
		byName[p.Name] = p
	}
	var found []servedPartition
	for _, one := range served {
		if p := byName[v1alpha1.PartitionName(topics[one.Topic], one.Partition)]; p != nil {
			found = append(found,
				servedPartition{resource: p, epoch: one.LeaderEpoch, ahead: one.Ahead})
		}
	}
	return found
}

// stopped returns the reports for Partitions that self served and does not serve any more, because
// their logs have failed: the status reports that self serves the Partition, but the parameter
// served does not contain it. Only a status that this incarnation wrote is considered. Such a
// status results from an image that is not later than the image from which the parameter served was
// computed. Partitions without a Topic are omitted, because no image contains them.
func (r resources) stopped(served []metadata.Served, self metadata.Broker) []servedPartition {
	topics := map[string]bool{}
	for _, t := range r.topics {
		topics[t.Name] = true
	}
	names := map[string]bool{}
	for _, p := range r.served(served) {
		names[p.resource.Name] = true
	}
	var found []servedPartition
	for _, p := range r.partitions {
		status := p.Status
		if !names[p.Name] && topics[p.Spec.Topic] && status.Leader == self.ID &&
			servedBy(status, self, status.LeaderEpoch) {
			found = append(found,
				servedPartition{resource: p, epoch: status.LeaderEpoch, stopped: true})
		}
	}
	return found
}

// serve writes one Partition's status by compare-and-swap. After a conflict it reads the Partition
// from the API server: the watch may deliver the other write too late for the caller.
func (s *Store) serve(ctx context.Context, self metadata.Broker, partition servedPartition) error {
	defer s.writes.lock(partition.resource.Name)()
	current := s.writes.latest(partition.resource).DeepCopy()
	ctx, cancel := context.WithTimeout(ctx, servingTimeout)
	defer cancel()
	for range servingAttempts {
		if partition.upToDate(current.Status, self) {
			return nil
		}
		partition.successor = successorExists(current.Status, self, s.brokerStates())
		partition.write(current, self)
		err := s.writes.update(ctx, s.client, current)
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("report partition %s as served: %w", current.Name, err)
		}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(current), current); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return fmt.Errorf("report partition %s as served: %d attempts ended in conflicts",
		partition.resource.Name, servingAttempts)
}

// servedBy reports whether, according to a status, this incarnation of self serves in a leader
// epoch.
func servedBy(status v1alpha1.PartitionStatus, self metadata.Broker, epoch int32) bool {
	return status.ServingEpoch != nil && *status.ServingEpoch == epoch &&
		slices.ContainsFunc(status.ISR,
			func(r v1alpha1.InSyncReplica) bool {
				return r.Broker == self.ID &&
					r.BrokerEpoch == self.Epoch
			})
}
