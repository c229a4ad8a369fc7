package metadatatest

import (
	"fmt"
	"slices"
	"sync"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// returning returns the registration of a broker that returns from a graceful stop, and has lost
// logs.
func (c *cluster) returning(id int32, losses *metadata.Losses) metadata.Broker {
	return metadata.Broker{ID: id, CleanEpoch: c.epochs[id], Directory: fmt.Sprintf("disk-%d", id),
		Endpoints: metadata.Endpoints(fmt.Sprintf("kafka://127.0.0.1:%d", 9092+id)),
		Losses:    losses}
}

// stopTogether stops all brokers gracefully, so that all remain in the ISRs.
func (c *cluster) stopTogether() {
	c.Helper()
	if elects, ok := c.world.(Elects); ok {
		if err := elects.LeaveAll(); err != nil {
			c.Fatal(err)
		}
		c.stop()
		return
	}
	for _, b := range c.running { // no election takes place meanwhile
		if err := b.AnnounceShutdown(c.Context()); err != nil {
			c.Fatal(err)
		}
	}
	c.stop()
}

// testLosses stops all brokers together. Broker 1 returns first, without the log of partition 0. It
// leaves the ISR before an election considers it, so broker 0 leads as soon as it returns. Losses
// that are recorded already, or belong to another topic or cluster, change nothing.
func testLosses(c *cluster) {
	all := c.startAll()
	created := all[0].create("a", 2)
	image := all[0].inSync(0, 1, 2)
	cluster, incarnation := image.ClusterID, created.Partitions[0].ReplicaIncarnation(1)
	other := "other"
	c.stopTogether()
	one := c.startAs(c.returning(1, &metadata.Losses{Cluster: cluster, Logs: []metadata.LostLog{
		{Topic: "a", Next: "next"}, // the directory is missing, so the topic's id is unknown
		{Topic: "a", TopicID: metadata.ID{1}, Partition: 1, Next: "x"},
		{Topic: "a", TopicID: created.ID, Partition: 1, ReplicaIncarnation: &other, Next: "x"},
		{Topic: "a", Partition: 7, Next: "x"},
		{Topic: "deleted", Next: "x"},
	}}))
	// The image shows the result of the election after the registration.
	intact := one.untilPartition("a", 1, "the intact replica leads",
		func(p *metadata.Partition) bool { return p.Leader == 1 })
	lost := one.last().Topic("a").Partitions[0]
	if lost.Leader != metadata.NoBroker || lost.ReplicaIncarnation(1) != "next" ||
		!slices.Equal(slices.Sorted(slices.Values(lost.ISR)), []int32{0, 2}) {
		c.Errorf("got lost partition %+v, want no leader, and brokers 0 and 2 in the ISR", lost)
	}
	if intact.ReplicaIncarnation(1) != incarnation {
		c.Errorf("got incarnation ids %v of the intact partition", intact.ReplicaIncarnations)
	}
	if self, _ := one.last().Broker(1); self.Losses != nil {
		c.Errorf("got broker %+v in an image", self)
	}
	zero := c.startAs(c.returning(0, &metadata.Losses{Cluster: "another",
		Logs: []metadata.LostLog{{Topic: "a", TopicID: created.ID, Next: "x"}}}))
	led := zero.untilPartition("a", 0, "broker 0 leads",
		func(p *metadata.Partition) bool { return p.Leader == 0 })
	if led.UnprovenEpoch != 0 || led.ReplicaIncarnation(0) == "x" {
		c.Errorf("got partition %+v, want the incarnation of broker 0, and a clean election", led)
	}
}

// testLastLoss checks that the last member of an ISR remains a member if it returns without its
// log. No clean election chooses it.
func testLastLoss(c *cluster) {
	all := c.startAll()
	all[0].create("a", 1)
	if _, faults := all[0].propose(proposal(all[0].inSync(0, 1, 2), "a", 0, 0)); faults[0] != nil {
		c.Fatal(faults[0])
	}
	all[0].inSync(0)
	c.stopTogether()
	for _, id := range []int32{1, 2} {
		c.startAs(c.returning(id, nil))
	}
	zero := c.startAs(c.returning(0, &metadata.Losses{
		Logs: []metadata.LostLog{{Topic: "a", Next: "next"}}}))
	p := zero.untilPartition("a", 0, "the loss is known",
		func(p *metadata.Partition) bool { return p.RecordsLost })
	if p.Leader != metadata.NoBroker || !slices.Equal(p.ISR, []int32{0}) ||
		p.ReplicaIncarnation(0) != "next" {
		c.Errorf("got partition %+v, want no leader, and broker 0 in the ISR", p)
	}
}

// testDamage makes two of three in-sync replicas request, at the same time, to be copied again. If
// two replicas must remain in sync, only one of them may leave the ISR.
func testDamage(c *cluster) {
	all := c.startAll()
	created := all[0].create("a", 1)
	all[0].inSync(0, 1, 2)
	requests := make([][]metadata.Served, Brokers)
	for id := range int32(2) {
		requests[id] = []metadata.Served{{Topic: created.ID, Damaged: true, MinInSync: 2,
			ReplicaIncarnation: created.Partitions[0].ReplicaIncarnation(id)}}
	}
	var reports sync.WaitGroup
	for id := range int32(2) {
		reports.Go(func() {
			if err := all[id].ReportServing(c.Context(), id, requests[id]); err != nil {
				c.Errorf("broker %d: %v", id, err)
			}
		})
	}
	reports.Wait()
	p := all[2].untilPartition("a", 0, "a damaged replica is not in sync",
		func(p *metadata.Partition) bool { return len(p.ISR) < 3 })
	kept := int32(0)
	if slices.Contains(p.ISR, 1) {
		kept = 1
	}
	if err := all[kept].ReportServing(c.Context(), kept, requests[kept]); err != nil {
		c.Error(err)
	}
	ref := all[2].create("b", 1) // an image that contains topic b is later than the report
	p = all[2].until("topic b", func(i *metadata.Image) bool {
		return i.TopicByID(ref.ID) != nil
	}).Topic("a").Partitions[0]
	if len(p.ISR) != 2 || !slices.Contains(p.ISR, kept) ||
		p.ReplicaIncarnation(kept) != created.Partitions[0].ReplicaIncarnation(kept) ||
		p.ReplicaIncarnation(1-kept) == created.Partitions[0].ReplicaIncarnation(1-kept) {
		c.Errorf("got partition %+v, want brokers 2 and %d in sync, and another incarnation of %d", p,
			kept, 1-kept)
	}
}

// testUnrecordedLoss checks that a broker does not register while its losses cannot be recorded.
func testUnrecordedLoss(c *cluster) {
	all := c.startAll()
	all[0].create("a", 1)
	all[0].inSync(0, 1, 2)
	all[1].stop()
	all[0].until("broker 1 is down", func(i *metadata.Image) bool {
		_, up := i.Broker(1)
		return !up
	})
	waiting, end := c.world.Block()
	one := c.launch(c.returning(1, &metadata.Losses{
		Logs: []metadata.LostLog{{Topic: "a", Next: "next"}}}))
	await.Until(c.TB, "the loss is being written", waiting)
	if _, up := all[0].last().Broker(1); up || one.last() != nil {
		c.Errorf("broker 1 has registered before its loss is recorded")
	}
	end()
	one.untilPartition("a", 0, "the loss is recorded",
		func(p *metadata.Partition) bool { return p.ReplicaIncarnation(1) == "next" })
	for _, r := range one.received.images {
		if p := r.image.Topic("a").Partitions[0]; slices.Contains(p.ISR, 1) {
			c.Errorf("got ISR %v in an image of the broker that has lost its log", p.ISR)
		}
	}
}
