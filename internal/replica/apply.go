package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

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

// Apply makes the set what the image says: logs are made, taken up, configured and released, leader
// epochs begun. It returns what this broker leads and serves now, and what it would serve but for a
// log that knows a later epoch. Errors concern single partitions, and come joined; the others are
// served. It is called from one goroutine.
//
// Logs go first, so that a topic deleted and made again under its name finds its directories free.
// Then come the partitions that wait for no disk, and last those that this broker begins to lead:
// of those that it leads already and those that it follows, producers elsewhere wait meanwhile,
// until a dead replica is out of sync, or until the new leader is followed.
func (s *Set) Apply(img *metadata.Image) ([]metadata.Served, error) {
	s.configure(img.Replication)
	old := s.view.Load().partitions
	assigned := s.assigned(img)
	next := &view{image: img, partitions: make(map[PartitionID]*partition, len(assigned))}
	faults := s.release(img, old, assigned)
	if len(faults) == 0 && img.ClusterID != "" {
		s.cluster = img.ClusterID // what is left on the disk is this cluster's
	}

	s.makeLogs(old, assigned)
	began, others := s.beginsToLead(old, assigned)
	failed := map[PartitionID]error{}
	s.takeAll(img, next, others, failed)
	s.view.Store(s.view.Load().with(next.partitions))
	// that is all of them: what begins to be led here is not followed, also when that fails
	s.follow(img, next.partitions)
	s.reviews.wantAll()

	s.takeAll(img, next, began, failed)
	served, refused := next.served(assigned, failed)
	faults = append(faults, refused...)
	s.view.Store(next)
	s.reviews.wantAll()
	// Again, now that settled finds them in their new roles: a sync that ended since take looked
	// moved nothing, and there may be no other.
	for _, p := range next.partitions {
		p.advance()
	}
	s.metrics.forgetTopics(old, next.partitions)
	// Requests that wait under the old roles look again. Not earlier: what they then read is of the
	// new view.
	for id := range old {
		s.produces.Notify(id)
		s.fetches.Notify(id)
		s.pulls.Notify(id)
	}
	s.markAll()
	return served, errors.Join(faults...)
}

// beginsToLead tells the partitions whose leader epoch is to begin here from the others, both in
// their order.
func (s *Set) beginsToLead(old map[PartitionID]*partition, assigned []assignment) (begin,
	others []assignment) {
	for _, a := range assigned {
		p := old[a.id]
		leads := p != nil && p.topic == a.topic.ID && p.role.Load().reign != nil &&
			p.role.Load().epoch == a.partition.LeaderEpoch
		if a.partition.Leader == s.node && !leads {
			begin = append(begin, a)
		} else {
			others = append(others, a)
		}
	}
	return begin, others
}

// served lists what of the partitions is served, or would be, and what kept others from being taken
// as they should.
func (v *view) served(assigned []assignment,
	failed map[PartitionID]error) (served []metadata.Served, faults []error) {
	for _, a := range assigned {
		p, err := v.partitions[a.id], failed[a.id]
		if err != nil {
			faults = append(faults, fmt.Errorf("partition %s: %w", a.id, err))
		}
		one := metadata.Served{Topic: a.topic.ID, Partition: a.partition.Index,
			LeaderEpoch: a.partition.LeaderEpoch}
		if state := p.state(); state.Leader && state.Fault == nil {
			served = append(served, one)
		} else if errors.Is(err, ErrFencedLeaderEpoch) {
			one.LeaderEpoch, one.Ahead = p.log.LeaderEpoch(), true
			served = append(served, one)
		}
	}
	return served, faults
}

// with is the view with partitions besides its own, or in their places.
func (v *view) with(partitions map[PartitionID]*partition) *view {
	all := maps.Clone(v.partitions)
	if all == nil {
		all = map[PartitionID]*partition{}
	}
	maps.Copy(all, partitions)
	return &view{image: v.image, partitions: all}
}

// assigned lists the partitions that the image puts here, in its order.
func (s *Set) assigned(img *metadata.Image) []assignment {
	var all []assignment
	for _, topic := range img.Topics {
		for _, p := range topic.Partitions {
			for _, replica := range p.Replicas {
				if replica == s.node {
					all = append(all,
						assignment{PartitionID{Topic: topic.Name, Index: p.Index}, topic, p})
				}
			}
		}
	}
	return all
}

// release ends the partitions that are assigned no more, and gives up every log on the disk that
// belongs to none that is: those of the last image, and, at the first one, those of topics that
// went while the broker was down.
func (s *Set) release(img *metadata.Image, old map[PartitionID]*partition,
	assigned []assignment) []error {
	wanted := make(map[PartitionID]metadata.ID, len(assigned))
	for _, a := range assigned {
		wanted[a.id] = a.topic.ID
	}
	// The roles go first, then the logs: a request that finds its log closed asks for the role, and
	// must find the refusal there.
	for id, p := range old {
		if topic, ok := wanted[id]; !ok || topic != p.topic {
			_ = p.become(&role{epoch: p.role.Load().epoch, leader: metadata.NoBroker,
				refusal: (&view{image: img}).missing(id)})
		}
	}
	var faults []error
	for _, log := range s.store.Logs() {
		id := log.ID()
		if topic, ok := wanted[id]; ok && topic == metadata.ID(log.TopicID()) {
			continue
		}
		retain := log.Retain() || s.foreign(img)
		if topic := img.TopicByID(metadata.ID(log.TopicID())); topic != nil &&
			!elsewhere(topic, log) {
			retain = true // the topic lives, and this may be the only copy of its records
		}
		s.logger.Info("release log", "partition", id, "retain", retain)
		if err := s.store.Release(id, retain); err != nil {
			faults = append(faults, fmt.Errorf("release partition %s: %w", id, err))
		}
	}
	return faults
}

// elsewhere tells whether a partition that was moved away has its records where it is now: it is
// led there, in an epoch that this log knows of or a later one. A move takes a replica away only
// once those it was moved to are in sync; but Partitions may also have been deleted and made anew,
// which forgets the epochs.
func elsewhere(topic *metadata.Topic, log *logstore.Log) bool {
	id := log.ID()
	if int(id.Index) >= len(topic.Partitions) {
		return false
	}
	p := topic.Partitions[id.Index]
	return p.Leader != metadata.NoBroker && len(p.ISR) > 0 && p.LeaderEpoch >= log.LeaderEpoch()
}

// foreign tells whether the store's logs are of another cluster than the image: then that a topic
// is not in it does not mean that somebody deleted it.
func (s *Set) foreign(img *metadata.Image) bool {
	return s.cluster != "" &&
		s.cluster != img.ClusterID
}

// Cluster is the id of the cluster whose logs the store holds. It is for the goroutine that calls
// Apply.
func (s *Set) Cluster() string { return s.cluster }

// taken is a partition in its new state, and why it is not served if it should be.
type taken struct {
	partition *partition
	err       error
}

// takeWorkers is how many partitions are taken at once, here and by a fetcher. To begin a leader
// epoch takes two syncs, which wait for the disk and for nothing else; those that come together go
// into one write of the filesystem's journal.
const takeWorkers = 64

// takeAll takes partitions into a view that is in the making; failed gets why some are not as they
// should be. Partitions do not depend on each other; what does, that logs were released and made
// before, and that the image is shown once all are taken, is kept by Apply.
func (s *Set) takeAll(img *metadata.Image, next *view, assigned []assignment,
	failed map[PartitionID]error) {
	old := s.view.Load().partitions
	all := make([]taken, len(assigned))
	var workers errgroup.Group
	workers.SetLimit(takeWorkers)
	for i, a := range assigned {
		workers.Go(func() error {
			all[i].partition, all[i].err = s.take(img, old[a.id], a)
			return nil
		})
	}
	_ = workers.Wait() // each has its own error
	for i, a := range assigned {
		next.partitions[a.id] = all[i].partition
		if all[i].err != nil {
			failed[a.id] = all[i].err
		}
	}
}

// take brings a partition into the state that the image asks for; old is what it was, or nil. It
// always returns a partition: one that cannot be served says why in its role. The old one is kept,
// with a new role, as long as its log is: waiting requests hold it, and learn from its role what
// has changed. A leader epoch is begun once, not again with every image.
func (s *Set) take(img *metadata.Image, old *partition, a assignment) (*partition, error) {
	p := old
	if p == nil || p.log == nil || p.topic != a.topic.ID {
		p = &partition{id: a.id, topic: a.topic.ID, source: metadata.NoBroker, gapEpoch: -1,
			logger: s.logger, traffic: s.metrics.of(a.id.Topic)}
	}
	before := p.role.Load()
	r := &role{
		epoch:    a.partition.LeaderEpoch,
		unproven: a.partition.UnprovenEpoch,
		leader:   a.partition.Leader,
		minISR:   a.topic.Settings.MinInSyncReplicas,
		replicas: a.partition.Replicas,
		brisk:    racks(img),
	}
	r.place(img, a.partition, s.node)
	err := s.openLog(p, a)
	// From before the leader epoch begins: were an answer of the leader before carried out behind
	// its beginning, the log would hold batches of an old epoch inside the new one, and followers
	// would be told for ever that they part from it there.
	p.changing.Lock()
	switch {
	case err != nil:
		r.refusal = err
	case a.partition.Leader != s.node:
		r.refusal = ErrNotLeader
	case before != nil && before.reign != nil && before.epoch == r.epoch:
		r.reign = before.reign
	default:
		if err = s.beginReign(p, r, before, img); err != nil {
			r.refusal = err
		}
	}
	if r.reign != nil {
		r.reign.configure(min(r.minISR, len(r.replicas)), time.Duration(s.lagMax.Load()))
		if was, is := r.reign.image(img, a.partition, time.Now()); was != nil &&
			len(is) < len(was) {
			s.logger.Info("in-sync replicas changed, as one has ended", "partition", a.id, "from",
				was, "to", is, "leaderEpoch", r.epoch)
			s.metrics.isrChanged(was, is)
		}
	}
	err = errors.Join(err, p.becomeLocked(r))
	p.changing.Unlock()
	if p.log != nil {
		boundCleaning(p, before, r)
	}
	p.advance()
	return p, err
}

// become gives the partition its new role. What was under way in the old one has ended when it
// returns: the reign moves no high watermark, no producer's batch is appended in it, and no
// leader's answer is carried out.
func (p *partition) become(r *role) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	return p.becomeLocked(r)
}

// becomeLocked is become; changing is held.
func (p *partition) becomeLocked(r *role) error {
	before := p.role.Load()
	if before != nil && before.reign != nil && before.reign != r.reign {
		before.reign.end()
	}
	if r.reign == nil && p.log != nil && (before == nil || before.reign != nil) {
		p.log.Follow()
	}
	err := p.settleAssignment(r)
	if err == nil {
		err = p.oneSource(r)
	}
	if err != nil {
		r.refusal = err
	}
	p.role.Store(r)
	p.stuck.Store(nil)
	return err
}

// errOldEpoch refuses to lead in an epoch that the log was led in before this broker came up.
var errOldEpoch = fmt.Errorf("%w: the log knows it from before this start", ErrFencedLeaderEpoch)

// beginReign begins a leader epoch.
//
// A replica that has just come up may have lost the end of its log, and its followers may have it:
// in the same epoch as before it would write another history under the same number. Its image is
// one of before its new incarnation; it waits for its election.
func (s *Set) beginReign(p *partition, r, before *role, img *metadata.Image) error {
	if len(r.replicas) > 1 && r.epoch == p.found {
		return errOldEpoch
	}
	if before != nil && before.reign != nil {
		before.reign.end()
	}
	if err := p.log.Lead(r.epoch); err != nil {
		return fmt.Errorf("begin leader epoch %d: %w", r.epoch, err)
	}
	r.reign = newReign(p.log, newISR(s.node, p.log.LogEnd(), time.Duration(s.lagMax.Load())))
	switch {
	case before == nil || before.reign != nil || before.leader == metadata.NoBroker:
		s.metrics.elections.WithLabelValues(electionStart).Inc()
	default:
		reason := electionFailover
		if _, lives := img.Broker(before.leader); lives {
			reason = electionMove
		}
		s.metrics.elections.WithLabelValues(reason).Inc()
	}
	return nil
}

// racks tells whether the cluster's brokers are in several racks.
func racks(img *metadata.Image) bool {
	return slices.ContainsFunc(img.Brokers,
		func(b metadata.Broker) bool { return b.Rack != img.Brokers[0].Rack })
}

// makeLogs makes the logs that are not there yet, all at once, for the store then writes its
// checkpoints once. openLog finds them; what could not be made it tries again, and tells why not.
func (s *Set) makeLogs(old map[PartitionID]*partition, assigned []assignment) {
	var wanted []logstore.Wanted
	for _, a := range assigned {
		if p := old[a.id]; p == nil || p.log == nil || p.topic != a.topic.ID {
			wanted = append(wanted, logstore.Wanted{
				ID: a.id, Topic: logstore.TopicID(a.topic.ID), Settings: a.topic.Settings,
				Retain: a.topic.RetainData,
			})
		}
	}
	s.store.CreateAll(wanted)
}

// openLog gives p its log, with the topic's settings: the one it has, or one from the store, which
// may find it on the disk or make it. Its error wraps logstore.ErrStorage.
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
	if err := p.openAssignment(log); err != nil {
		return storageError(err)
	}
	p.log, p.found = log, log.LeaderEpoch()
	if log.Settings() != settings || log.Retain() != retain {
		log.Configure(settings, retain) // it was on the disk, with the settings of then
	}
	return nil
}

// storageError makes sure that callers can tell a log that cannot be opened from a partition that
// is elsewhere.
func storageError(err error) error {
	if errors.Is(err, logstore.ErrStorage) {
		return err
	}
	return fmt.Errorf("%w: %w", logstore.ErrStorage, err)
}
