package local

import (
	"context"
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/metadata"
)

// Run implements metadata.Store. While it runs, the broker is up. Image and news are read under one
// lock: a change after that closes this very channel, so none is slept through, and several changes
// may be one image.
func (s *Store) Run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	if err := s.register(self); err != nil {
		return fmt.Errorf("register broker %d: %w", self.ID, err)
	}
	defer s.unregister(self.ID)
	var last *metadata.Image
	for {
		s.shown.Lock()
		image, news := s.shown.image, s.shown.news
		s.shown.Unlock()
		if ctx.Err() != nil {
			return nil
		}
		if image != last {
			apply(image)
			last = image
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
}

// register brings a broker up in a new incarnation. Its epoch is on the disk before anybody sees
// the broker. With the last broker that was awaited, elections begin.
func (s *Store) register(self metadata.Broker) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if _, up := s.changing.up[self.ID]; up {
		return errors.New("a broker of this id is up already")
	}
	self.Epoch, self.Leaving = s.changing.document.BrokerEpochs[self.ID]+1, false
	known := s.changing.document.ProducerIDs[self.ID]
	self.ProducerIDs = metadata.NextProducerIDs(known.Bound, known.Directory, self)
	self.ProducerIDsLost = false
	s.changing.up[self.ID] = self
	held := s.changing.held
	s.changing.held = held && len(s.changing.up) < s.changing.document.running()
	err := s.changeLocked(wishes{}, func(d *document) error {
		d.BrokerEpochs[self.ID], d.ProducerIDs[self.ID] = self.Epoch,
			producerIDs{self.ProducerIDs, self.Directory}
		return nil
	})
	if err != nil {
		delete(s.changing.up, self.ID)
		s.changing.held = held
	}
	return err
}

// unregister takes a broker's leaderships away. If the write fails, the old image stays shown, and
// the next change tries again.
func (s *Store) unregister(id int32) {
	s.changing.Lock()
	defer s.changing.Unlock()
	delete(s.changing.up, id)
	s.show(func() { delete(s.shown.served, id) })
	_ = s.changeLocked(wishes{}, func(*document) error { return nil })
}

// Hold stops elections until every broker is up, or Release is called: a cluster that starts would
// else give all leaderships to the broker that was quickest.
func (s *Store) Hold() {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.changing.held = len(s.changing.up) < s.changing.document.running()
}

// Release holds the elections that Hold stopped, if they have not begun already.
func (s *Store) Release() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if !s.changing.held {
		return nil
	}
	s.changing.held = false
	return s.changeLocked(wishes{}, func(*document) error { return nil })
}

// Balance gives leadership back to the first replica of each partition whose first replica is in
// sync. It also tries again what could not be written when a broker went.
func (s *Store) Balance() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.changeLocked(wishes{preferred: true}, func(*document) error { return nil })
}

// AcceptDataLoss lets partitions that have no leader go on with what their living replicas hold,
// once.
func (s *Store) AcceptDataLoss() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.changeLocked(wishes{lossy: true}, func(*document) error { return nil })
}

// Leave says of a broker that is up that it is to lead nothing more. One that is not up has left
// already.
func (s *Store) Leave(_ context.Context, id int32) error {
	return s.leave(func(up int32) bool { return up == id })
}

// LeaveAll says it of all at once: the cluster stops, so nobody is there to take over, and
// everything stays where it is.
func (s *Store) LeaveAll() error {
	return s.leave(func(int32) bool { return true })
}

// leave marks brokers and shows the image that follows; on a failure none is marked.
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
	err := s.changeLocked(wishes{}, func(*document) error { return nil })
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

// ReportServing implements metadata.Store. What was served before is replaced, not added to.
func (s *Store) ReportServing(_ context.Context, broker int32, served []metadata.Served) error {
	epochs := make(map[servedPartition]int32, len(served))
	ahead := map[servedPartition]int32{}
	for _, p := range served {
		if key := (servedPartition{p.Topic, p.Partition}); p.Ahead {
			ahead[key] = p.LeaderEpoch
		} else {
			epochs[key] = p.LeaderEpoch
		}
	}
	s.show(func() { s.shown.served[broker] = epochs })
	if len(ahead) == 0 {
		return nil
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.changeLocked(wishes{}, func(d *document) error {
		d.outgrow(broker, ahead, s.changing.up)
		return nil
	})
}

// Session is the store as one broker has it: it knows who leaves.
type Session struct {
	*Store
	Broker int32
}

// AnnounceShutdown implements metadata.ShutdownAnnouncer.
func (s Session) AnnounceShutdown(ctx context.Context) error { return s.Store.Leave(ctx, s.Broker) }
