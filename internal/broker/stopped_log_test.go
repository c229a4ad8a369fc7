package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

var errDisk = errors.New("the disk has failed")

// rep returns partition 0 of topic rep in the metadata.
func (c *trio) rep() *metadata.Partition { return c.metadata.Image().Topic("rep").Partitions[0] }

// stopLog stops the log of partition 0 of topic rep on a broker, as a failed disk does.
func (c *trio) stopLog(id int32) {
	c.t.Helper()
	log := c.brokers[id].store.Log(logstore.PartitionID{Topic: "rep", Index: 0})
	if log == nil {
		c.t.Fatalf("broker %d has no log", id)
	}
	log.Fail(errDisk)
}

// restart restarts a broker whose log has stopped, so that its store was not closed cleanly.
func (c *trio) restart(id int32) {
	c.t.Helper()
	if err := c.stops[id](); !errors.Is(err, errDisk) {
		c.t.Errorf("stop broker %d: %v", id, err)
	}
	c.start(int(id), true)
}

// awaitISR waits until partition 0 of topic rep has these in-sync replicas, and one of them leads.
func (c *trio) awaitISR(what string, isr ...int32) {
	c.t.Helper()
	c.await(what, func() bool {
		p := c.rep()
		return slices.Equal(slices.Sorted(slices.Values(p.ISR)), isr) &&
			slices.Contains(isr, p.Leader)
	})
}

// others returns the brokers except some, in ascending order.
func others(except ...int32) []int32 {
	return slices.DeleteFunc([]int32{0, 1, 2},
		func(id int32) bool { return slices.Contains(except, id) })
}

// TestStoppedFollowerLeavesAnIdlePartition: the log of a follower stops in a partition without a
// single write. It leaves the ISR and joins again after a restart. The leader stays.
func TestStoppedFollowerLeavesAnIdlePartition(t *testing.T) {
	c := newTrio(t)
	c.await("all replicas to be in sync", c.inSync(3))
	before := c.rep()
	follower := others(before.Leader)[0]
	c.stopLog(follower)
	c.awaitISR("the follower to leave", others(follower)...)
	if p := c.rep(); p.Leader != before.Leader || p.LeaderEpoch != before.LeaderEpoch {
		t.Errorf("leader %d in epoch %d, want %d in epoch %d", p.Leader, p.LeaderEpoch,
			before.Leader, before.LeaderEpoch)
	}
	c.restart(follower)
	c.await("all replicas to be in sync again", c.inSync(3))
}

// TestStoppedLeaderHandsOver: the log of the leader stops while records are produced, then that of
// its successor. The last in-sync replica leads, with fewer replicas than min.insync.replicas, so
// it accepts no records until another one is in sync. No acknowledged record is lost.
func TestStoppedLeaderHandsOver(t *testing.T) {
	c := newTrio(t)
	c.await("all replicas to be in sync", c.inSync(3))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	acknowledged := c.produce(ctx)
	c.more(20)
	first := c.rep().Leader
	c.stopLog(first)
	c.awaitISR("the leader to hand over", others(first)...)
	c.more(20)
	second := c.rep().Leader
	c.stopLog(second)
	c.awaitISR("the last replica to lead", others(first, second)...)
	c.restart(first)
	c.awaitISR("the first leader to be in sync again", others(second)...)
	c.more(20)
	stop()
	n := acknowledged()
	c.restart(second)
	c.await("all replicas to be in sync again", c.inSync(3))
	c.consume(n)
	for id := range c.brokers {
		c.stop(id)
	}
	c.equal()
}

// TestStoppedLastMember: the logs of both followers stop, then that of the leader. The leader
// remains the leader and reports the reason. When a follower has returned, it copies what it lacks
// from the stopped log, joins the ISR, and leads. No acknowledged record is lost.
func TestStoppedLastMember(t *testing.T) {
	c := newTrio(t)
	c.await("all replicas to be in sync", c.inSync(3))
	ctx, stop := context.WithCancel(t.Context())
	acknowledged := c.produce(ctx)
	c.more(20)
	leader := c.rep().Leader
	first, second := others(leader)[0], others(leader)[1]
	c.stopLog(first)
	c.awaitISR("the first follower to leave", others(first)...)
	c.more(20)
	stop()
	n := acknowledged()
	c.stopLog(second)
	c.awaitISR("the second follower to leave", leader)
	c.stopLog(leader)
	await.For(t, func() string {
		rows := c.brokers[leader].Report()
		if slices.ContainsFunc(rows, func(row report.Partition) bool {
			return row.Topic == "rep" && row.Partition == 0 &&
				strings.Contains(row.Fault, errDisk.Error())
		}) {
			return ""
		}
		return fmt.Sprintf("the fault of the leader in %+v", rows)
	})
	c.awaitISR("the last member to remain", leader)
	c.restart(first)
	c.awaitISR("the first follower to lead", first)
	c.restart(second)
	c.awaitISR("both followers to be in sync", others(leader)...)
	c.consume(n)
	c.restart(leader)
	c.await("all replicas to be in sync again", c.inSync(3))
}

// TestAllLogsStopped: the logs of all replicas stop at once, so brokers may be elected whose logs
// have stopped already. One replica remains in sync. After restarts of all brokers no acknowledged
// record is lost.
func TestAllLogsStopped(t *testing.T) {
	c := newTrio(t)
	c.await("all replicas to be in sync", c.inSync(3))
	ctx, stop := context.WithCancel(t.Context())
	acknowledged := c.produce(ctx)
	c.more(20)
	stop()
	n := acknowledged()
	for id := range int32(3) {
		c.stopLog(id)
	}
	c.await("one replica to remain", func() bool {
		p := c.rep()
		return len(p.ISR) == 1 && p.Leader == p.ISR[0]
	})
	for id := range int32(3) {
		c.restart(id)
	}
	c.await("all replicas to be in sync again", c.inSync(3))
	c.consume(n)
}
