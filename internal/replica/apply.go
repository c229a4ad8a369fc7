package replica

import (
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// assignment is a partition that the image puts on this broker.
type assignment struct {
	id        PartitionID
	topic     *metadata.Topic
	partition *metadata.Partition
}

// Apply makes the set what the image says: logs are made, taken up, configured and released, leader epochs begun. It returns
// what this broker leads and serves now, and what it would serve but for a log that knows a later epoch. Errors concern
// single partitions, and come joined; the others are served. It is called from one goroutine.
//
// Logs go first, so that a topic deleted and made again under its name finds its directories free.
func (s *Set) Apply(img *metadata.Image) ([]metadata.Served, error) {
	old := s.view.Load().partitions
	assigned := s.assigned(img)
	next := &view{image: img, partitions: make(map[PartitionID]*partition, len(assigned))}
	faults := s.release(img, old, assigned)
	if len(faults) == 0 && img.ClusterID != "" {
		s.cluster = img.ClusterID // what is left on the disk is this cluster's
	}

	s.makeLogs(old, assigned)
	var served []metadata.Served
	for i, took := range s.takeAll(old, assigned) {
		a, p := assigned[i], took.partition
		next.partitions[a.id] = p
		if took.err != nil {
			faults = append(faults, fmt.Errorf("partition %s: %w", a.id, took.err))
		}
		one := metadata.Served{Topic: a.topic.ID, Partition: a.partition.Index, LeaderEpoch: a.partition.LeaderEpoch}
		if state := p.state(); state.Leader && state.Fault == nil {
			served = append(served, one)
		} else if errors.Is(took.err, ErrFencedLeaderEpoch) {
			one.LeaderEpoch, one.Ahead = p.log.LeaderEpoch(), true
			served = append(served, one)
		}
	}
	s.view.Store(next)
	// Again, now that settled finds them in their new roles: a sync that ended since take looked moved nothing, and there may be no other.
	for _, p := range next.partitions {
		if p.role.Load().refusal == nil {
			p.advance()
		}
	}
	s.metrics.forgetTopics(old, next.partitions)
	// Requests that wait under the old roles look again. Not earlier: what they then read is of the new view.
	for id := range old {
		s.notify(id)
	}
	return served, errors.Join(faults...)
}

// assigned lists the partitions that the image puts here, in its order.
func (s *Set) assigned(img *metadata.Image) []assignment {
	var all []assignment
	for _, topic := range img.Topics {
		for _, p := range topic.Partitions {
			for _, replica := range p.Replicas {
				if replica == s.node {
					all = append(all, assignment{PartitionID{Topic: topic.Name, Index: p.Index}, topic, p})
				}
			}
		}
	}
	return all
}

// release ends the partitions that are assigned no more, and gives up every log on the disk that belongs to none that is:
// those of the last image, and, at the first one, those of topics that went while the broker was down.
func (s *Set) release(img *metadata.Image, old map[PartitionID]*partition, assigned []assignment) []error {
	wanted := make(map[PartitionID]metadata.ID, len(assigned))
	for _, a := range assigned {
		wanted[a.id] = a.topic.ID
	}
	// The roles go first, then the logs: a request that finds its log closed asks for the role, and must find the refusal
	// there.
	for id, p := range old {
		if topic, ok := wanted[id]; !ok || topic != p.topic {
			p.role.Store(&role{epoch: p.role.Load().epoch, refusal: (&view{image: img}).missing(id)})
		}
	}
	var faults []error
	for _, log := range s.store.Logs() {
		id := log.ID()
		if topic, ok := wanted[id]; ok && topic == metadata.ID(log.TopicID()) {
			continue
		}
		retain := log.Retain() || s.foreign(img)
		if topic := img.TopicByID(metadata.ID(log.TopicID())); topic != nil {
			// The topic lives, its partition moved to other brokers. Without replication they have not got the records from
			// here, and this may be the only copy.
			retain = true
		}
		s.logger.Info("release log", "partition", id, "retain", retain)
		if err := s.store.Release(id, retain); err != nil {
			faults = append(faults, fmt.Errorf("release partition %s: %w", id, err))
		}
	}
	return faults
}

// foreign tells whether the store's logs are of another cluster than the image: then that a topic is not in it does not mean
// that somebody deleted it.
func (s *Set) foreign(img *metadata.Image) bool { return s.cluster != "" && s.cluster != img.ClusterID }

// Cluster is the id of the cluster whose logs the store holds. It is for the goroutine that calls Apply.
func (s *Set) Cluster() string { return s.cluster }

// taken is a partition in its new state, and why it is not served if it should be.
type taken struct {
	partition *partition
	err       error
}

// takeWorkers is how many partitions are taken at once. To begin a leader epoch takes two syncs, which wait for the disk and for
// nothing else; those that come together go into one write of the filesystem's journal.
const takeWorkers = 16

// takeAll takes every partition, and returns them in the order of assigned. Partitions do not depend on each other; what does, that
// logs were released and made before and that nobody is told before all are taken, is kept by Apply, which waits for all of them.
func (s *Set) takeAll(old map[PartitionID]*partition, assigned []assignment) []taken {
	all := make([]taken, len(assigned))
	var workers errgroup.Group
	workers.SetLimit(takeWorkers)
	for i, a := range assigned {
		workers.Go(func() error {
			all[i].partition, all[i].err = s.take(old[a.id], a)
			return nil
		})
	}
	_ = workers.Wait() // each has its own error
	return all
}

// take brings a partition into the state that the image asks for; old is what it was, or nil. It always returns a partition:
// one that cannot be served says why in its role. The old one is kept, with a new role, as long as its log is: waiting
// requests hold it, and learn from its role what has changed. A leader epoch is begun once, not again with every image.
func (s *Set) take(old *partition, a assignment) (*partition, error) {
	p := old
	if p == nil || p.log == nil || p.topic != a.topic.ID {
		p = &partition{id: a.id, topic: a.topic.ID, traffic: s.metrics.of(a.id.Topic)}
	}
	before := p.role.Load()
	r := &role{
		epoch:    a.partition.LeaderEpoch,
		isr:      max(len(a.partition.ISR), 1), // a leader is in sync with itself, whether the image has it yet or not
		minISR:   a.topic.Settings.MinInSyncReplicas,
		replicas: len(a.partition.Replicas),
	}
	err := s.openLog(p, a)
	switch {
	case err != nil:
		r.refusal = err
	case len(a.partition.Replicas) > 1:
		err = fmt.Errorf("%w: it has %d", ErrReplicated, len(a.partition.Replicas))
		r.refusal = err
	case a.partition.Leader != s.node:
		r.refusal = ErrNotLeader
	case before == nil || before.refusal != nil || before.epoch != r.epoch:
		if err = p.log.Lead(r.epoch); err != nil {
			err = fmt.Errorf("begin leader epoch %d: %w", r.epoch, err)
			r.refusal = err
			break
		}
		p.advance()
	}
	p.role.Store(r)
	return p, err
}

// makeLogs makes the logs that are not there yet, all at once, for the store then writes its checkpoints once. openLog finds them; what
// could not be made it tries again, and tells why not.
func (s *Set) makeLogs(old map[PartitionID]*partition, assigned []assignment) {
	var wanted []logstore.Wanted
	for _, a := range assigned {
		if p := old[a.id]; p == nil || p.log == nil || p.topic != a.topic.ID {
			wanted = append(wanted, logstore.Wanted{
				ID: a.id, Topic: logstore.TopicID(a.topic.ID), Settings: a.topic.Settings, Retain: a.topic.RetainData,
			})
		}
	}
	s.store.CreateAll(wanted)
}

// openLog gives p its log, with the topic's settings: the one it has, or one from the store, which may find it on the disk
// or make it. Its error wraps logstore.ErrStorage.
func (s *Set) openLog(p *partition, a assignment) error {
	settings, retain := a.topic.Settings, a.topic.RetainData
	if p.log != nil {
		if p.log.Settings() != settings || p.log.Retain() != retain {
			p.log.Configure(settings, retain)
		}
		return nil
	}
	log, err := s.store.Create(a.id, logstore.TopicID(a.topic.ID), settings, retain)
	if err != nil {
		return storageError(err)
	}
	p.log = log
	if log.Settings() != settings || log.Retain() != retain {
		log.Configure(settings, retain) // it was on the disk, with the settings of then
	}
	return nil
}

// storageError makes sure that callers can tell a log that cannot be opened from a partition that is elsewhere.
func storageError(err error) error {
	if errors.Is(err, logstore.ErrStorage) {
		return err
	}
	return fmt.Errorf("%w: %w", logstore.ErrStorage, err)
}
