package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"heartwood.dev/heartwood/internal/metadata"
)

// Run implements metadata.Store. The broker is up while Run runs. Run reads the image, and the
// channel that announces the next image, under one lock. So it always applies the last image. It
// may skip images in between.
func (s *Store) Run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	if err := s.register(self); err != nil {
		return fmt.Errorf("register broker %d: %w", self.ID, err)
	}
	defer s.unregister(self.ID)
	var last *metadata.Image
	for {
		s.published.Lock()
		image, changed := s.published.image, s.published.changed
		s.published.Unlock()
		if ctx.Err() != nil {
			return nil
		}
		if image != last {
			apply(image)
			last = image
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// register assigns a new broker epoch to a broker and adds the broker to the image. The epoch is
// written to the file before the image is published. The same change records the broker's losses.
// When a starting cluster's last broker registers, the elections that Hold suspended take place.
func (s *Store) register(self metadata.Broker) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if _, up := s.changing.up[self.ID]; up {
		return errors.New("a broker with this id is up already")
	}
	self.Epoch, self.Leaving = s.changing.document.BrokerEpochs[self.ID]+1, false
	known := s.changing.document.ProducerIDs[self.ID]
	self.ProducerIDs = metadata.NextProducerIDs(known.Bound, known.Directory, self)
	losses := self.Losses
	self.ProducerIDsLost, self.Losses = false, nil
	s.changing.up[self.ID] = self
	wereHeld := s.changing.electionsHeld
	s.changing.electionsHeld = wereHeld && len(s.changing.up) < s.changing.document.running()
	err := s.changeLocked(electionOptions{}, func(d *document) error {
		d.BrokerEpochs[self.ID], d.ProducerIDs[self.ID] = self.Epoch,
			producerIDs{self.ProducerIDs, self.Directory}
		d.recordLosses(self.ID, losses)
		return nil
	})
	if err != nil {
		delete(s.changing.up, self.ID)
		s.changing.electionsHeld = wereHeld
	}
	return err
}

// unregister removes a broker from the image, and elects other leaders for its partitions. If the
// write fails, the old image remains published, and the next change removes the broker.
func (s *Store) unregister(id int32) {
	s.changing.Lock()
	defer s.changing.Unlock()
	delete(s.changing.up, id)
	s.publish(func() { delete(s.published.served, id) })
	_ = s.changeLocked(electionOptions{}, func(*document) error { return nil })
}

// Hold suspends elections until every broker is up or Release is called. Otherwise a starting
// cluster's first broker would become the leader of every partition.
func (s *Store) Hold() {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.changing.electionsHeld = len(s.changing.up) < s.changing.document.running()
}

// Release ends the suspension of elections by Hold.
func (s *Store) Release() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if !s.changing.electionsHeld {
		return nil
	}
	s.changing.electionsHeld = false
	return s.changeLocked(electionOptions{}, func(*document) error { return nil })
}

// Balance elects each preferred leader that is in sync. It also repeats a write that failed in
// unregister, because it writes the same document.
func (s *Store) Balance() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.changeLocked(electionOptions{preferred: true}, func(*document) error { return nil })
}

// AcceptDataLoss performs one unclean election for each partition without a leader.
func (s *Store) AcceptDataLoss() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.changeLocked(electionOptions{allowDataLoss: true},
		func(*document) error { return nil })
}

// Leave marks a broker as leaving, so that it is not elected. It has no effect on a broker that is
// not up.
func (s *Store) Leave(_ context.Context, id int32) error {
	return s.leave(func(up int32) bool { return up == id })
}

// LeaveAll marks all brokers as leaving, in one change, when the whole cluster stops. No broker can
// take over then, so leaders and ISRs do not change.
func (s *Store) LeaveAll() error {
	return s.leave(func(int32) bool { return true })
}

// leave marks brokers as leaving and publishes the resulting image. If the write fails, it marks no
// broker.
func (s *Store) leave(which func(id int32) bool) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	var marked []int32
	for id, b := range s.changing.up {
		if which(id) && !b.Leaving {
			b.Leaving = true
			s.changing.up[id] = b
			marked = append(marked, id)
		}
	}
	err := s.changeLocked(electionOptions{}, func(*document) error { return nil })
	if err == nil {
		return nil
	}
	for _, id := range marked {
		b := s.changing.up[id]
		b.Leaving = false
		s.changing.up[id] = b
	}
	return err
}

// ReportServing implements metadata.Store. It replaces the broker's previous report. A partition
// may be missing that the broker served in its present leader epoch. If another in-sync replica of
// such a partition can lead, that replica becomes the leader. A replica whose log has stopped
// leaves the ISR if another ISR member can lead.
func (s *Store) ReportServing(_ context.Context, broker int32, served []metadata.Served) error {
	epochs := make(map[servedPartition]int32, len(served))
	ahead := map[servedPartition]int32{}
	var lost, logsStopped, damaged []metadata.Served
	for _, p := range served {
		switch key := (servedPartition{p.Topic, p.Partition}); {
		case p.Lost:
			lost = append(lost, p)
		case p.Damaged:
			damaged = append(damaged, p)
		case p.Stopped:
			logsStopped = append(logsStopped, p)
		case p.Ahead:
			ahead[key] = p.LeaderEpoch
		default:
			epochs[key] = p.LeaderEpoch
		}
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	stopped := s.stopped(broker, served)
	damaged = s.discards(broker, damaged)
	if len(ahead)+len(lost)+len(stopped)+len(logsStopped)+len(damaged) > 0 {
		err := s.changeLocked(electionOptions{}, func(d *document) error {
			d.reportFoundEpochs(broker, ahead)
			d.reportLostLogs(broker, lost)
			d.stopServing(s.changing.up, broker, stopped)
			d.stopLogs(s.changing.up, broker, logsStopped)
			d.discardLogs(s.changing.up, broker, damaged)
			return nil
		})
		if err != nil {
			// The caller reports again. The previous report still contains the partitions that have stopped.
			return err
		}
	}
	s.publish(func() { s.published.served[broker] = epochs })
	return nil
}

// discards returns the reports about damaged replicas that change a partition now. The caller holds
// changing.
func (s *Store) discards(broker int32, damaged []metadata.Served) []metadata.Served {
	return slices.DeleteFunc(damaged, func(p metadata.Served) bool {
		t, exists := s.changing.document.topicByID(p.Topic)
		if !exists {
			return true
		}
		entry, _ := s.changing.document.set.Get(t.key(p.Partition))
		return entry.State == nil || !discard(broker, p).Changes(entry.State.Partition,
			brokerStates(s.changing.up))
	})
}

// stopped returns the partitions whose logs have failed: the broker leads them in the image, and
// its previous report contains them with the image's leader epoch, but the new report does not
// contain them as served.
func (s *Store) stopped(broker int32, served []metadata.Served) map[servedPartition]int32 {
	s.published.Lock()
	image, stopped := s.published.image, maps.Clone(s.published.served[broker])
	s.published.Unlock()
	for _, p := range served {
		if !p.Stopped {
			delete(stopped, servedPartition{p.Topic, p.Partition})
		}
	}
	maps.DeleteFunc(stopped, func(served servedPartition, epoch int32) bool {
		t := image.TopicByID(served.topic)
		return t == nil || int(served.index) >= len(t.Partitions) ||
			t.Partitions[served.index].Leader != broker || t.Partitions[served.index].LeaderEpoch != epoch
	})
	return stopped
}

// Session is the Store as one broker uses it. It implements AnnounceShutdown, which needs the
// broker's id.
type Session struct {
	*Store
	Broker int32
}

// AnnounceShutdown implements metadata.ShutdownAnnouncer.
func (s Session) AnnounceShutdown(ctx context.Context) error { return s.Store.Leave(ctx, s.Broker) }
