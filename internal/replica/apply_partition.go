package replica

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/isr"
)

// applyConcurrency is the maximum number of partitions that the applier, or a fetcher, processes at
// once. A partition may wait for syncs, for example while its log is created or truncated.
// Concurrent syncs share one write of the filesystem's journal.
const applyConcurrency = 64

// applyPartitions applies an image to partitions and adds them to the view next. It stores their
// errors in the map failed. The partitions are independent of each other, so applyPartitions
// processes them concurrently.
func (a *applier) applyPartitions(img *metadata.Image, next *view, assigned []assignedPartition,
	failed map[PartitionID]error) {
	type result struct {
		partition *partition
		err       error
	}
	old := a.set.view.Load().partitions
	results := make([]result, len(assigned))
	var workers errgroup.Group
	workers.SetLimit(applyConcurrency)
	for i, ap := range assigned {
		workers.Go(func() error {
			results[i].partition, results[i].err = a.applyPartition(img, old[ap.id], ap)
			return nil
		})
	}
	_ = workers.Wait() // results contains the errors
	if n := a.shrunk.Swap(0); n > 0 {
		a.set.logger.Info("ISRs shrunk by the operator", "partitions", n)
	}
	for i, ap := range assigned {
		p := results[i].partition
		next.partitions[ap.id], p.applied = p, ap
		if results[i].err != nil {
			// Clear applied, so that the next image is applied to this partition again.
			failed[ap.id], p.applied = results[i].err, assignedPartition{}
		}
	}
}

// applyPartition brings a partition into the state that an image describes. old is the partition's
// previous state, or nil. applyPartition always returns a partition: if the broker cannot serve it,
// its role contains the reason. As long as the log is kept, applyPartition returns the old
// partition with a new role, because waiting requests refer to the partition and detect the change
// by its role. A leader epoch begins only once, and not with every image.
func (a *applier) applyPartition(img *metadata.Image, old *partition,
	ap assignedPartition) (*partition, error) {
	s, p := a.set, old
	if p == nil || p.log == nil || p.topic != ap.topic.ID {
		p = &partition{id: ap.id, topic: ap.topic.ID, source: metadata.NoBroker, gapEpoch: -1,
			recordedAs: a.recordedLosses[ap.id],
			logger:     s.logger, traffic: s.metrics.of(ap.id.Topic)}
	}
	before := p.role.Load()
	r := newRole(img, ap.topic, ap.partition, s.node)
	err := a.openLog(p, ap)
	// Lock changing before the leader epoch begins. Otherwise a response of the previous leader could
	// be applied afterwards. The log would then contain batches of the old epoch after the start of
	// the new one, and followers would diverge there in every fetch.
	p.changing.Lock()
	p.foundLost.Store(false)
	if err == nil {
		err = p.stampLoss(r.incarnation)
	}
	switch {
	case err != nil:
		r.refusal = err
	case p.lossUnreported(r):
		// The refusal is set by adoptIncarnation.
	case ap.partition.Leader != s.node:
		r.refusal = ErrNotLeader
	case before != nil && before.leaderState != nil && before.epoch == r.epoch:
		r.leaderState = before.leaderState
	default:
		if err = a.beginLeaderEpoch(p, r, before, img); err != nil {
			r.refusal = err
		}
	}
	if r.leaderState != nil {
		r.leaderState.configure(min(r.minISR, len(r.replicas)), time.Duration(s.lagMax.Load()))
		was, is := r.leaderState.applyImage(img, ap.partition, time.Now())
		if was != nil && len(is) < len(was) {
			s.logger.Debug("ISR shrunk by the operator", "partition", ap.id,
				"from", was, "to", is, "leaderEpoch", r.epoch)
			a.shrunk.Add(1)
			s.metrics.isrChanged(was, is)
		}
	}
	err = errors.Join(err, p.setRoleLocked(r))
	p.changing.Unlock()
	led := before != nil && before.leaderState != nil
	switch {
	case led && r.leaderState == nil:
		p.refusedUntil.extend(formerLeaderPeriod)
	case !led && r.leaderState != nil:
		s.produces.Notify(p.id) // notified here, because the image's other partitions may take longer
	}
	if p.log != nil {
		resetCleaningProgress(p, before, r)
	}
	p.advance()
	return p, err
}

// setRole changes the partition's role. After it returns, the old role has no further effect: the
// old leaderState no longer advances the high watermark, produce requests that began in the old
// role append nothing, and responses to fetches of the old role are not applied.
func (p *partition) setRole(r *role) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	return p.setRoleLocked(r)
}

// setRoleLocked does the work of setRole for a caller that holds changing.
func (p *partition) setRoleLocked(r *role) error {
	before := p.role.Load()
	if before != nil && before.leaderState != nil && before.leaderState != r.leaderState {
		before.leaderState.end()
	}
	if r.leaderState == nil && p.log != nil && (before == nil || before.leaderState != nil) {
		p.log.Follow()
	}
	err := p.adoptIncarnation(r)
	if err == nil {
		err = p.requireSingleSource(r)
	}
	if err != nil {
		r.refusal = err
	}
	p.role.Store(r)
	p.followFault.Store(nil)
	return err
}

// errRestartedLeader means that this broker does not lead in a leader epoch, because the epoch
// began before this broker process started.
var errRestartedLeader = fmt.Errorf("%w: it began before this broker started; waiting for an "+
	"election", ErrFencedLeaderEpoch)

// AwaitsElection reports whether the next election resolves an error of Apply. The broker requests
// this election by reporting the served partitions.
func AwaitsElection(err error) bool { return errors.Is(err, errRestartedLeader) }

// beginLeaderEpoch makes this broker the leader in a new leader epoch.
//
// If the partition has other replicas, beginLeaderEpoch rejects an epoch that began in an earlier
// process of this broker. The broker may have lost the end of its log in a crash, while its
// followers still have these records. If it continued to lead in that epoch, it would append other
// records with the same offsets and epoch. So the broker waits for its next election. There are two
// signs of such an epoch:
//
//   - The leader's recorded broker epoch is not this broker's current one. No image of a metadata
//     store shows
//     such a leader (metadata.Store.Run). The log does not necessarily contain the epoch, because
//     the epoch may be lost.
//   - The log already contained the epoch when this process opened the log. This happens if the
//     metadata store has lost its state, and assigns leader epochs again.
func (a *applier) beginLeaderEpoch(p *partition, r, before *role, img *metadata.Image) error {
	if len(r.replicas) > 1 && (r.epoch == p.epochAtOpen || r.inISR && !r.inSync) {
		return errRestartedLeader
	}
	if before != nil && before.leaderState != nil {
		before.leaderState.end()
	}
	if err := p.log.Lead(r.epoch); err != nil {
		return fmt.Errorf("begin leader epoch %d: %w", r.epoch, err)
	}
	r.leaderState = newLeaderState(p.log,
		isr.New(a.set.node, p.log.LogEnd(), time.Duration(a.set.lagMax.Load())))
	reason := electionFailover
	switch {
	case before == nil || before.leaderState != nil || before.leader == metadata.NoBroker:
		reason = electionStart
	default:
		if _, up := img.Broker(before.leader); up {
			reason = electionMove
		}
	}
	a.set.metrics.elections.WithLabelValues(reason).Inc()
	return nil
}

// createLogs creates the missing logs together, so that the store writes its checkpoints only once.
// openLog finds the created logs. If a log could not be created, openLog tries again and reports
// the error.
func (a *applier) createLogs(old map[PartitionID]*partition, assigned []assignedPartition) {
	var missing []logstore.LogSpec
	for _, ap := range assigned {
		if p := old[ap.id]; p == nil || p.log == nil || p.topic != ap.topic.ID {
			missing = append(missing, logstore.LogSpec{
				ID: ap.id, Topic: logstore.TopicID(ap.topic.ID), Settings: ap.topic.Settings,
				Retain: ap.topic.RetainData,
			})
		}
	}
	a.set.store.CreateAll(missing)
}

// openLog opens p's log, unless it is already open, and applies the topic's settings. If the log
// does not exist on the disk, the store creates it. The error wraps logstore.ErrStorage.
func (a *applier) openLog(p *partition, ap assignedPartition) error {
	settings, retain := ap.topic.Settings, ap.topic.RetainData
	if p.log != nil {
		if p.log.Settings() != settings || p.log.Retain() != retain {
			p.log.Configure(settings, retain)
		}
		return nil
	}
	log, err := a.set.store.Create(ap.id, logstore.TopicID(ap.topic.ID), settings, retain)
	if err != nil {
		return storageError(err)
	}
	if err := p.loadReplicaState(log); err != nil {
		return storageError(err)
	}
	p.log, p.epochAtOpen = log, log.LeaderEpoch()
	if log.Settings() != settings || log.Retain() != retain {
		log.Configure(settings, retain) // a log that was found on the disk may have older settings
	}
	return nil
}

// storageError returns an error that wraps logstore.ErrStorage. It lets callers distinguish a log
// that cannot be opened from a partition that is on other brokers.
func storageError(err error) error {
	if errors.Is(err, logstore.ErrStorage) {
		return err
	}
	return fmt.Errorf("%w: %w", logstore.ErrStorage, err)
}
