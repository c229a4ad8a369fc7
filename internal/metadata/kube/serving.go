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
	// servingWorkers write at once: a broker that comes back may have thousands of partitions to
	// report.
	servingWorkers = 4
	// servingTries is how often one write is tried when others (the operator) change the Partition
	// meanwhile.
	servingTries = 5
	// servingTimeout bounds them together: an API server that takes requests and answers none must
	// not hold up the others.
	servingTimeout = 10 * time.Second
)

// ReportServing implements metadata.Store: it writes servingEpoch of the partitions that do not say so
// yet, and takes it back from those that this incarnation served and does not any more, as their
// disk failed: these it leaves to others that are in sync. An error says what could not be written;
// the caller tries again.
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
	news := slices.DeleteFunc(slices.Concat(all.served(served), all.stopped(served, self)),
		func(p servedPartition) bool {
			return p.settled(p.resource.Status, self)
		})
	for _, partition := range news {
		writers.Go(func() error {
			err := s.serve(ctx, self, partition)
			if len(news) > servingWorkers {
				s.written.giveWay(ctx)
			}
			if err != nil {
				faults.Lock()
				defer faults.Unlock()
				faults.all = append(faults.all, err)
			}
			return nil
		})
	}
	_ = writers.Wait() // its functions gather their errors
	return errors.Join(faults.all...)
}

// registered returns this broker as it registered.
func (s *Store) registered(broker int32) (metadata.Broker, error) {
	self := s.self.Load()
	if self == nil || self.ID != broker {
		return metadata.Broker{}, fmt.Errorf("broker %d is not registered", broker)
	}
	return *self, nil
}

// servedPartition is a Partition and the leader epoch at which it is served, or that its log knows
// and is ahead by.
type servedPartition struct {
	resource *v1alpha1.Partition
	epoch    int32 // at which it is served; ahead: the one that the log knows
	ahead    bool  // see metadata.Served
	stopped  bool  // it was served at epoch, and is not any more
	others   bool  // stopped: somebody else could lead it
}

// settled tells whether there is nothing to write into a status: it says so already, or another
// election came, which has an image of its own.
func (p servedPartition) settled(status v1alpha1.PartitionStatus, self metadata.Broker) bool {
	if status.Leader != self.ID {
		return true
	}
	if p.ahead {
		return status.LeaderEpoch > p.epoch || status.FoundEpoch != nil &&
			*status.FoundEpoch >= p.epoch
	}
	return status.LeaderEpoch != p.epoch || says(status, self, p.epoch) != p.stopped
}

// write makes a Partition's status say it.
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
	if p.others {
		// Out of the ISR it leads no more, as the operator sees. Who stays has every acknowledged
		// record.
		metadata.RecordISR(status,
			slices.DeleteFunc(slices.Clone(status.ISR),
				func(r v1alpha1.InSyncReplica) bool { return r.Broker == self.ID }))
	}
}

// inSyncBeside tells whether another broker than self could lead: in sync, up in that incarnation,
// and staying.
func inSyncBeside(status v1alpha1.PartitionStatus, self metadata.Broker,
	up map[int32]placement.BrokerState) bool {
	return slices.ContainsFunc(status.ISR, func(r v1alpha1.InSyncReplica) bool {
		other, lives := up[r.Broker]
		return r.Broker != self.ID && lives && other.Epoch == r.BrokerEpoch && !other.Leaving
	})
}

// served finds the Partitions; one that is gone is nobody's loss.
func (r resources) served(served []metadata.Served) []servedPartition {
	topics := r.names()
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

// stopped finds the Partitions that say that self serves them, and are not among those that it
// serves: their logs have failed. Only this incarnation's own word is taken back, which it gave for
// an image no later than the one that served comes from; and those without a Topic stay as they
// are, as they are no part of any image.
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
			says(status, self, status.LeaderEpoch) {
			found = append(found,
				servedPartition{resource: p, epoch: status.LeaderEpoch, stopped: true})
		}
	}
	return found
}

// serve writes one Partition's status, by compare-and-swap. When another was faster, it reads
// again: the watch may tell later than the caller should wait.
func (s *Store) serve(ctx context.Context, self metadata.Broker, partition servedPartition) error {
	defer s.written.lock(partition.resource.Name)()
	current := s.written.newest(partition.resource).DeepCopy()
	ctx, cancel := context.WithTimeout(ctx, servingTimeout)
	defer cancel()
	for range servingTries {
		if partition.settled(current.Status, self) {
			return nil
		}
		partition.others = inSyncBeside(current.Status, self, s.standings())
		partition.write(current, self)
		err := s.written.update(ctx, s.client, current)
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
	return fmt.Errorf("report partition %s as served: it is changed too often",
		partition.resource.Name)
}

// says tells whether a status holds already that self serves it, in this incarnation.
func says(status v1alpha1.PartitionStatus, self metadata.Broker, epoch int32) bool {
	return status.ServingEpoch != nil && *status.ServingEpoch == epoch &&
		slices.ContainsFunc(status.ISR,
			func(r v1alpha1.InSyncReplica) bool {
				return r.Broker == self.ID &&
					r.BrokerEpoch == self.Epoch
			})
}
