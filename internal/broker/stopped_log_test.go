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

// rep returns partition 0 of topic rep from the metadata.
func (c *trio) rep() *metadata.Partition { return c.metadata.Image().Topic("rep").Partitions[0] }

// stopLog stops the log of partition 0 of topic rep on a broker, in the same way as a failed disk.
func (c *trio) stopLog(id int32) {
	c.t.Helper()
	log := c.brokers[id].store.Log(logstore.PartitionID{Topic: "rep", Index: 0})
	if log == nil {
		c.t.Fatalf("broker %d has no log", id)
	}
	log.Fail(errDisk)
}

// restart restarts a broker whose log has stopped, and whose store can therefore not be closed
// cleanly.
func (c *trio) restart(id int32) {
	c.t.Helper()
	if err := c.stops[id](); !errors.Is(err, errDisk) {
		c.t.Errorf("stop broker %d: %v", id, err)
	}
	c.start(int(id), true)
}

// awaitISR waits until partition 0 of topic rep has the given in-sync replicas, and one of them is
// the leader.
func (c *trio) awaitISR(what string, isr ...int32) {
	c.t.Helper()
	c.await(what, func() bool {
		p := c.rep()
		return slices.Equal(slices.Sorted(slices.Values(p.ISR)), isr) &&
			slices.Contains(isr, p.Leader)
	})
}

// others returns all brokers except the given ones, in ascending order.
func others(except ...int32) []int32 {
	return slices.DeleteFunc([]int32{0, 1, 2},
		func(id int32) bool { return slices.Contains(except, id) })
}

// TestStoppedFollowerLeavesAnIdlePartition checks that a follower whose log stops leaves the ISR,
// even if nothing is written to the partition, and rejoins it after a restart. The leader must not
// change.
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

// TestStoppedLeaderHandsOver stops the leader's log while records are produced, and then its
// successor's log. The last in-sync replica must become the leader. With fewer in-sync replicas
// than min.insync.replicas, it accepts no records until another replica is in sync. No acknowledged
// record may be lost.
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

// TestStoppedLastMember stops the logs of both followers, and then the leader's log. The leader
// must remain the leader and report the reason. A follower that returns must copy the missing
// records from the stopped log, join the ISR, and become the leader. No acknowledged record may be
// lost.
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

// TestAllLogsStopped stops the logs of all replicas at the same time, so that a broker whose log
// has already stopped may be elected. One replica must remain in the ISR, and no acknowledged
// record may be lost after all brokers have restarted.
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
