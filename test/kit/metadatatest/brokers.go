package metadatatest

import (
	"errors"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/metadata"
)

func testImages(c *cluster) {
	all := c.startAll()
	for i := range 5 {
		all[i%Brokers].create(fmt.Sprintf("topic-%d", i), 2)
	}
	for _, b := range all {
		image := b.until("all topics", func(i *metadata.Image) bool { return len(i.Topics) == 5 })
		if found := image.Topic("topic-3"); image.TopicByID(found.ID) != found {
			c.Errorf("broker %d: the indexes by name and id differ", b.id)
		}
		b.received.Lock()
		for i, r := range b.received.images[1:] {
			if before := b.received.images[i].image; len(r.image.Topics) < len(before.Topics) {
				c.Errorf("broker %d: an image has %d topics after one with %d", b.id,
					len(r.image.Topics), len(before.Topics))
			}
		}
		b.received.Unlock()
	}
}

// testRegistration starts a broker again after a kill, and after the store was reopened. start
// checks that the broker epochs increase.
func testRegistration(c *cluster) {
	all := c.startAll()
	topic := all[0].create("a", 1)
	elected := topic.Partitions[0].LeaderEpoch
	all[0].kill()
	all[1].until("broker 0 down", func(i *metadata.Image) bool {
		_, up := i.Broker(0)
		return !up
	})
	again := c.start(0)
	checkNoEarlierEpoch(again, elected)
	again.stop()
	c.stop()
	c.world.Reopen(c.TB)
	last := c.startAs(metadata.Broker{ID: 0, CleanEpoch: 2, BootEpoch: 1, Directory: "disk-0"})
	checkNoEarlierEpoch(last, elected)
	if self, _ := last.last().Broker(0); self.CleanEpoch != 2 || self.BootEpoch != 1 {
		c.Errorf("got broker %+v, want clean epoch 2 and boot epoch 1", self)
	}
}

// testProducerIDs uses a broker without replicas. So a store does not wait for a user's consent to
// the broker's new disk (metadata.RegistrationWaiter).
func testProducerIDs(c *cluster) {
	const bound = 5 + metadata.ProducerIDsAhead
	for _, test := range []struct {
		directory   string
		bound, want int64
	}{
		{"a", bound, bound},
		{"a", bound - 1, bound},
		{"b", bound - 1, bound + metadata.ProducerIDsAhead},
		{"b", bound - 1, bound + metadata.ProducerIDsAhead},
	} {
		b := c.startAs(metadata.Broker{ID: 0, CleanEpoch: -1, Directory: test.directory,
			ProducerIDs: test.bound})
		if self, _ := b.last().Broker(0); self.ProducerIDs != test.want {
			c.Errorf("disk %s: got bound %d, want %d", test.directory, self.ProducerIDs, test.want)
		}
		b.stop()
		c.world.Reopen(c.TB)
	}
}

// checkNoEarlierEpoch checks that a broker never leads topic a because of an election in an earlier
// run.
func checkNoEarlierEpoch(b *broker, earlier int32) {
	b.c.Helper()
	b.received.Lock()
	defer b.received.Unlock()
	for _, r := range b.received.images {
		p := r.image.Topic("a").Partitions[0]
		if p.Leader == b.id && p.LeaderEpoch <= earlier {
			b.c.Errorf("broker %d leads in leader epoch %d, which began before Run", b.id,
				p.LeaderEpoch)
		}
	}
}

// proposal returns the proposal to change a partition's ISR to the brokers in to.
func proposal(image *metadata.Image, topic string, index int32, to ...int32) metadata.ISRChange {
	found := image.Topic(topic)
	p := found.Partitions[index]
	change := metadata.ISRChange{Topic: found.ID, Partition: index, LeaderEpoch: p.LeaderEpoch,
		From: p.ISR}
	for _, id := range to {
		member, _ := image.Broker(id)
		change.To = append(change.To, metadata.InSync{Broker: id, Epoch: member.Epoch,
			ReplicaIncarnation: p.ReplicaIncarnation(id)})
	}
	return change
}

// propose proposes ISR changes and returns their outcomes.
func (b *broker) propose(changes ...metadata.ISRChange) (epochs []int64, faults []error) {
	b.c.Helper()
	type outcome struct {
		change int
		epoch  int64
		err    error
	}
	settled := make(chan outcome, 2*len(changes)) // the capacity includes surplus outcomes
	b.ChangeISR(b.c.Context(), changes, func(i int, epoch int64, err error) {
		settled <- outcome{i, epoch, err}
	})
	close(settled)
	epochs, faults = make([]int64, len(changes)), make([]error, len(changes))
	count := make([]int, len(changes))
	for o := range settled {
		count[o.change]++
		epochs[o.change], faults[o.change] = o.epoch, o.err
		if (o.err == nil) != (o.epoch > 0) {
			b.c.Errorf("change %d: got partition epoch %d and error %v", o.change, o.epoch, o.err)
		}
	}
	for i, n := range count {
		if n != 1 {
			b.c.Errorf("change %d is settled %d times before ChangeISR returns", i, n)
		}
	}
	return epochs, faults
}

// inSync waits until the ISR of partition 0 of topic a consists of the given brokers.
func (b *broker) inSync(ids ...int32) *metadata.Image {
	b.c.Helper()
	b.untilPartition("a", 0, fmt.Sprintf("ISR %v", ids), func(p *metadata.Partition) bool {
		return slices.Equal(slices.Sorted(slices.Values(p.ISR)), ids)
	})
	return b.last()
}

func testISR(c *cluster) {
	all := c.startAll()
	leader := all[0]
	leader.create("a", 1)
	image := leader.inSync(0, 1, 2)
	shrink := proposal(image, "a", 0, 0)
	epochs, faults := leader.propose(shrink)
	if faults[0] != nil || epochs[0] <= image.Topic("a").Partitions[0].PartitionEpoch {
		c.Fatalf("shrink: got partition epoch %d, error %v", epochs[0], faults[0])
	}
	image = leader.inSync(0)
	wrong := func(change func(*metadata.ISRChange)) metadata.ISRChange {
		grow := proposal(image, "a", 0, 0, 1)
		change(&grow)
		return grow
	}
	for what, change := range map[string]metadata.ISRChange{
		"earlier leader epoch": wrong(func(i *metadata.ISRChange) { i.LeaderEpoch-- }),
		"later leader epoch":   wrong(func(i *metadata.ISRChange) { i.LeaderEpoch++ }),
		"another ISR":          wrong(func(i *metadata.ISRChange) { i.From = []int32{0, 2} }),
		"earlier broker epoch": wrong(func(i *metadata.ISRChange) { i.To[1].Epoch-- }),
		"other incarnation": wrong(func(i *metadata.ISRChange) {
			i.To[1].ReplicaIncarnation = "other"
		}),
		"without the leader": wrong(func(i *metadata.ISRChange) { i.To = i.To[1:] }),
		"not a replica":      wrong(func(i *metadata.ISRChange) { i.To[1].Broker = 9 }),
		"unknown topic":      wrong(func(i *metadata.ISRChange) { i.Topic = metadata.ID{1} }),
		"unknown partition":  wrong(func(i *metadata.ISRChange) { i.Partition = 7 }),
		"negative partition": wrong(func(i *metadata.ISRChange) { i.Partition = -1 }),
	} {
		if _, faults := leader.propose(change); !errors.Is(faults[0], metadata.ErrISRConflict) {
			c.Errorf("%s: got error %v, want ErrISRConflict", what, faults[0])
		}
	}
	leader.inSync(0)
	if _, faults := leader.propose(proposal(image, "a", 0, 0, 1)); faults[0] != nil {
		c.Errorf("grow: %v", faults[0])
	}
	image = leader.inSync(0, 1)
	if err := all[2].AnnounceShutdown(c.Context()); err != nil {
		c.Fatal(err)
	}
	leader.until("broker 2 is leaving", func(i *metadata.Image) bool {
		b, _ := i.Broker(2)
		return b.Leaving
	})
	if _, faults := leader.propose(proposal(image, "a", 0, 0, 1, 2)); !errors.Is(faults[0],
		metadata.ErrISRConflict) {
		c.Errorf("leaving member: got error %v, want ErrISRConflict", faults[0])
	}
}

func testISRBatch(c *cluster) {
	leader := c.startAll()[0]
	const partitions = 20
	leader.create("a", partitions)
	image := leader.last()
	var changes []metadata.ISRChange
	for i := range int32(partitions) {
		changes = append(changes, proposal(image, "a", i, 0, 1))
	}
	changes[7].LeaderEpoch += 3
	_, faults := leader.propose(changes...)
	for i, err := range faults {
		if i == 7 && !errors.Is(err, metadata.ErrISRConflict) || i != 7 && err != nil {
			c.Errorf("change %d: got error %v", i, err)
		}
	}
	leader.until("all but one ISR changed", func(image *metadata.Image) bool {
		for i, p := range image.Topic("a").Partitions {
			if i == 7 && len(p.ISR) != Brokers || i != 7 && len(p.ISR) != 2 {
				return false
			}
		}
		return true
	})
}

func testServing(c *cluster) {
	leader := c.startAll()[0]
	topic := leader.create("a", 2)
	epoch := topic.Partitions[1].LeaderEpoch
	served := []metadata.Served{
		{Topic: topic.ID, Partition: 0, LeaderEpoch: topic.Partitions[0].LeaderEpoch},
		{Topic: topic.ID, Partition: 1, LeaderEpoch: epoch + 6, Ahead: true},
		{Topic: metadata.ID{1}, Partition: 0, LeaderEpoch: 1}, // topic deleted in the meantime
	}
	for range 2 {
		if err := leader.ReportServing(c.Context(), 0, served); err != nil {
			c.Fatal(err)
		}
	}
	p := leader.untilPartition("a", 1, "a leader epoch above that of the log",
		func(p *metadata.Partition) bool { return p.LeaderEpoch > epoch+6 && p.Leader == 0 })
	other := leader.last().Topic("a").Partitions[0]
	if other.LeaderEpoch != topic.Partitions[0].LeaderEpoch || p.Leader != 0 {
		c.Errorf("the partition that is served has leader epoch %d, want %d", other.LeaderEpoch,
			topic.Partitions[0].LeaderEpoch)
	}
}

// testStoppedLogs: the logs of a partition stop on all brokers, one after the other. A follower
// leaves the ISR at once, the leader hands over, and the last member remains, although it never
// served. A broker whose log works again joins, and then the other one leaves.
func testStoppedLogs(c *cluster) {
	all := c.startAll()
	created := all[0].create("a", 1)
	all[0].inSync(0, 1, 2)
	stopped := []metadata.Served{{Topic: created.ID, Stopped: true},
		{Topic: metadata.ID{1}, Stopped: true}} // deleted in the meantime
	report := func(id int32, served []metadata.Served) {
		c.Helper()
		for range 2 {
			if err := all[id].ReportServing(c.Context(), id, served); err != nil {
				c.Fatal(err)
			}
		}
	}
	report(0, []metadata.Served{{Topic: created.ID,
		LeaderEpoch: created.Partitions[0].LeaderEpoch}})
	report(2, stopped)
	image := all[0].inSync(0, 1)
	if p := image.Topic("a").Partitions[0]; p.Leader != 0 ||
		p.LeaderEpoch != created.Partitions[0].LeaderEpoch {
		c.Errorf("a follower has left, and the leader is %d in epoch %d", p.Leader, p.LeaderEpoch)
	}
	report(0, stopped)
	all[1].untilPartition("a", 0, "broker 1 leads", func(p *metadata.Partition) bool {
		return p.Leader == 1 && slices.Equal(p.ISR, []int32{1})
	})
	report(1, stopped)
	if _, faults := all[1].propose(proposal(all[1].last(), "a", 0, 0, 1)); faults[0] != nil {
		c.Fatalf("broker 0 joins again: %v", faults[0])
	}
	all[0].inSync(0, 1)
	report(1, stopped)
	all[1].untilPartition("a", 0, "broker 0 leads", func(p *metadata.Partition) bool {
		return p.Leader == 0 && slices.Equal(p.ISR, []int32{0})
	})
}

func testShutdown(c *cluster) {
	all := c.startAll()
	all[0].create("a", 1)
	if err := all[0].AnnounceShutdown(c.Context()); err != nil {
		c.Fatal(err)
	}
	moved := all[1].untilPartition("a", 0, "another leader", func(p *metadata.Partition) bool {
		return p.Leader != 0 && p.Leader != metadata.NoBroker
	})
	if b, up := all[1].last().Broker(0); !up || !b.Leaving || !slices.Contains(moved.ISR, 1) {
		c.Errorf("got broker 0 %+v, up %t, partition %+v; want it to be leaving", b, up, moved)
	}
	all[0].stop()
	if b, _ := c.start(0).last().Broker(0); b.Leaving {
		c.Error("broker 0 is still leaving after its next Run")
	}
}

func testShutdownOfAll(c *cluster) {
	all := c.startAll()
	all[2].create("a", 1)
	for _, b := range all {
		if err := b.AnnounceShutdown(c.Context()); err != nil {
			c.Fatal(err)
		}
	}
	image := all[0].until("all leaving", func(i *metadata.Image) bool {
		return !slices.ContainsFunc(i.Brokers, func(b metadata.Broker) bool { return !b.Leaving })
	})
	if p := image.Topic("a").Partitions[0]; p.Leader == metadata.NoBroker ||
		!slices.Contains(p.ISR, 2) {
		c.Errorf("got partition %+v, want a leader, and the last broker in the ISR", p)
	}
}
