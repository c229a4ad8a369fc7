package broker

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// partition returns a partition of topic rep in the current metadata image.
func (c *trio) partition(index int) *metadata.Partition {
	return c.metadata.Image().Topic("rep").Partitions[index]
}

// write produces some records and returns the number of acknowledged ones.
func (c *trio) write() int {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	acknowledged := c.produce(ctx)
	c.more(20)
	stop()
	return acknowledged()
}

// lead makes a broker the leader of partition 0: it stops the other brokers, and starts them again
// afterwards. It returns when all replicas are in sync.
func (c *trio) lead(id int) {
	c.t.Helper()
	for other := range c.brokers {
		if other != id {
			c.stop(other)
		}
	}
	c.await("the broker to lead", func() bool { return c.partition(0).Leader == int32(id) })
	for other := range c.brokers {
		if other != id {
			c.start(other, true)
		}
	}
	c.await("all replicas to be in sync", c.inSync(3))
}

// stopAll stops all brokers at the same time. No broker can take over, so all replicas remain in
// the ISRs. If graceful is false, the brokers crash.
func (c *trio) stopAll(graceful bool) {
	c.t.Helper()
	if err := c.metadata.LeaveAll(); err != nil {
		c.t.Fatal(err)
	}
	for id := range c.brokers {
		if graceful {
			c.stop(id)
		} else {
			c.kill(id)
		}
	}
}

// loseLog removes the log of partition 0 from the disk of a broker that is stopped.
func (c *trio) loseLog(id int) {
	c.t.Helper()
	if err := errors.Join(c.disks[id].RemoveAll("/data/rep-0"),
		c.disks[id].SyncDir("/data")); err != nil {
		c.t.Fatal(err)
	}
}

// startFirst starts a broker that has lost the log of partition 0, and after it the other brokers.
func (c *trio) startFirst(id int) {
	c.t.Helper()
	c.start(id, true)
	c.await("the broker to register", func() bool {
		_, up := c.metadata.Image().Broker(int32(id))
		return up
	})
	if p := c.partition(0); p.Leader != metadata.NoBroker || len(p.ISR) != 2 ||
		slices.Contains(p.ISR, int32(id)) {
		c.t.Errorf("broker %d has registered without its log: leader %d, ISR %v; want no leader, and "+
			"the ISR without it", id, p.Leader, p.ISR)
	}
	<-c.brokers[id].readiness.serves // it has applied an image
	for other := range c.brokers {
		if other != id {
			c.start(other, true)
		}
	}
}

// TestFirstBrokerHasLostALog checks that no record is lost if all brokers are stopped gracefully,
// with all replicas in sync, and the first broker that starts has lost a log. The other replicas
// have every record, so one of them must be elected without consent, and the lost log must be
// copied again.
func TestFirstBrokerHasLostALog(t *testing.T) {
	for name, test := range map[string]struct{ leader, loses int }{
		"preferred leader":             {1, 0},
		"last leader":                  {1, 1},
		"preferred and last leader":    {0, 0},
		"a replica that has not led":   {0, 2},
		"another one after a handover": {1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTrio(t)
			c.await("all replicas to be in sync", c.inSync(3))
			// The list of replicas may begin with any broker.
			replicas := c.partition(0).Replicas
			leader, loses := replicas[test.leader], int(replicas[test.loses])
			if c.partition(0).Leader != leader {
				c.lead(int(leader))
			}
			n := c.write()
			incarnation := c.partition(0).ReplicaIncarnation(int32(loses))
			c.stopAll(true)
			c.loseLog(loses)
			c.startFirst(loses)
			c.await("all replicas to be in sync again", c.inSync(3))
			if p := c.partition(0); p.UnprovenEpoch != 0 ||
				p.ReplicaIncarnation(int32(loses)) == incarnation {
				t.Errorf("got unproven epoch %d and incarnations %v", p.UnprovenEpoch,
					p.ReplicaIncarnations)
			}
			c.consume(n)
			for id := range c.brokers {
				c.stop(id)
			}
			c.equal()
			if _, err := c.disks[loses].Stat("/data/rep-0/records.lost"); err == nil {
				t.Error("the loss is still known after the log was copied")
			}
		})
	}
}

// TestLastLeaderHasLostItsLogAfterAPowerCut is like TestFirstBrokerHasLostALog after an unclean
// stop of all brokers. Any replica may lack its newest records, so the election must wait until all
// brokers have returned.
func TestLastLeaderHasLostItsLogAfterAPowerCut(t *testing.T) {
	c := newTrio(t)
	c.await("all replicas to be in sync", c.inSync(3))
	c.write()
	loses := int(c.partition(0).Leader)
	// Checkpoints are evidence of the loss. A graceful stop writes them.
	c.stop(loses)
	c.start(loses, true)
	c.await("all replicas to be in sync again", c.inSync(3))
	c.lead(loses)
	c.stopAll(false)
	c.loseLog(loses)
	c.startFirst(loses)
	c.await("all replicas to be in sync after the power cut", c.inSync(3))
	for id := range c.brokers {
		c.stop(id)
	}
	c.equal()
}

// TestOnlyReplicaHasLostItsLog checks that a partition whose only replica has lost its log is
// offline until a person accepts the loss.
func TestOnlyReplicaHasLostItsLog(t *testing.T) {
	c := newTrio(t, func(topic *v1alpha1.Topic) {
		topic.Spec.Replicas, topic.Spec.MinInSyncReplicas = new(int32(1)), new(int32(1))
	})
	c.await("all replicas to be in sync", c.inSync(1))
	c.write()
	loses := int(c.partition(0).Leader)
	c.stopAll(true)
	c.loseLog(loses)
	for id := range c.brokers {
		c.start(id, true)
	}
	c.await("the other partition to have a leader", func() bool {
		return c.partition(1).Leader != metadata.NoBroker
	})
	c.await("the loss to be reported", func() bool { return c.partition(0).RecordsLost })
	if p := c.partition(0); p.Leader != metadata.NoBroker || !slices.Equal(p.ISR, p.Replicas) {
		t.Errorf("got leader %d, ISR %v of replicas %v", p.Leader, p.ISR, p.Replicas)
	}
	if err := c.metadata.AcceptDataLoss(); err != nil {
		t.Fatal(err)
	}
	c.await("the partition to have a leader", c.inSync(1))
	// The leader removes the file when it applies the image that names it, after the election.
	c.await("the accepted loss to be forgotten", func() bool {
		_, err := c.disks[loses].Stat("/data/rep-0/records.lost")
		return errors.Is(err, fs.ErrNotExist)
	})
	c.stop(loses)
}
