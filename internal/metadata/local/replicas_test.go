package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// actor is a broker that a test brings up and down one by one.
type actor struct {
	t    *testing.T
	s    *Store
	self metadata.Broker
	stop func()
}

func startAll(t *testing.T, s *Store, brokers int) []*actor {
	t.Helper()
	all := make([]*actor, brokers)
	for i := range all {
		self := metadata.Broker{ID: int32(i), Directory: fmt.Sprint("disk-", i), CleanEpoch: -1}
		all[i] = &actor{t: t, s: s, self: self}
		all[i].up()
	}
	t.Cleanup(func() {
		for _, a := range all {
			a.down()
		}
	})
	return all
}

// up registers the broker, and returns once it was given an image.
func (a *actor) up() {
	a.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	shown := make(chan struct{})
	var once sync.Once
	running.Go(func() {
		if err := a.s.Run(ctx, a.self,
			func(*metadata.Image) { once.Do(func() { close(shown) }) }); err != nil {
			a.t.Error(err)
			once.Do(func() { close(shown) })
		}
	})
	<-shown
	a.stop = func() { cancel(); running.Wait() }
}

// down ends the broker; it may be down already.
func (a *actor) down() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
}

// epoch is the broker's incarnation.
func (a *actor) epoch() int64 {
	b, _ := a.s.Image().Broker(a.self.ID)
	return b.Epoch
}

// show is a partition in one line.
func show(s *Store, topic string, index int) string {
	p := s.Image().Topic(topic).Partitions[index]
	return fmt.Sprintf("leader %d epoch %d isr %v replicas %v target %v", p.Leader, p.LeaderEpoch,
		p.ISR, p.Replicas, p.Target)
}

func expect(t *testing.T, s *Store, when, want string) {
	t.Helper()
	if got := show(s, "a", 0); got != want {
		t.Errorf("%s:\n got %s\nwant %s", when, got, want)
	}
}

// replicated is a store with the topic "a" of one partition on three brokers, which are all up.
func replicated(t *testing.T, fs vfs.FS) (*Store, []*actor) {
	t.Helper()
	s := open(t, fs)
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 1, replicas: 3}`)); err != nil {
		t.Fatal(err)
	}
	s.Hold()
	return s, startAll(t, s, 3)
}

func TestElectionsWaitForAllBrokersOfAStart(t *testing.T) {
	s, _ := replicated(t, memory(t))
	if err := s.AwaitBrokers(t.Context(), 3); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.AwaitBrokers(ended, 4); !errors.Is(err, context.Canceled) {
		t.Errorf("a fourth broker: %v", err)
	}
	expect(t, s, "all are up", "leader 0 epoch 1 isr [0 1 2] replicas [0 1 2] target []")

	s = open(t, memory(t))
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 1, replicas: 3}`)); err != nil {
		t.Fatal(err)
	}
	s.Hold()
	a := &actor{t: t, s: s, self: metadata.Broker{ID: 1, CleanEpoch: -1}}
	a.up()
	defer a.down()
	expect(t, s, "one is up", "leader -1 epoch 0 isr [] replicas [0 1 2] target []")
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "no more are awaited", "leader 1 epoch 1 isr [1] replicas [0 1 2] target []")
}

func TestLeadershipMovesWhenBrokersGo(t *testing.T) {
	s, brokers := replicated(t, memory(t))
	brokers[0].down()
	expect(t, s, "the leader is gone", "leader 1 epoch 2 isr [1 2] replicas [0 1 2] target []")
	brokers[2].down()
	expect(t, s, "a follower is gone", "leader 1 epoch 2 isr [1] replicas [0 1 2] target []")
	brokers[0].up()
	expect(t, s, "one is back, out of sync", "leader 1 epoch 2 isr [1] replicas [0 1 2] target []")
	brokers[1].down()
	expect(t, s, "the last in sync is gone", "leader -1 epoch 3 isr [1] replicas [0 1 2] target []")
	brokers[1].up()
	expect(t, s, "it is back", "leader 1 epoch 4 isr [1] replicas [0 1 2] target []")
	inSync(t, s, brokers[0], brokers[1])
	expect(t, s, "another has caught up", "leader 1 epoch 4 isr [0 1] replicas [0 1 2] target []")
	if err := s.Balance(); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "leadership is balanced", "leader 0 epoch 5 isr [0 1] replicas [0 1 2] target []")
}

// inSync makes the ISR of a-0 those brokers.
func inSync(t *testing.T, s *Store, members ...*actor) {
	t.Helper()
	if err := changeISR(t, s, proposalOf(s, members...)); err != nil {
		t.Fatal(err)
	}
}

// changeISR makes one change.
func changeISR(t *testing.T, s *Store, change metadata.ISRChange) (err error) {
	s.ChangeISR(t.Context(), []metadata.ISRChange{change}, func(_ int, fault error) { err = fault })
	return err
}

func proposalOf(s *Store, members ...*actor) metadata.ISRChange {
	topic := s.Image().Topic("a")
	p := topic.Partitions[0]
	change := metadata.ISRChange{Topic: topic.ID, LeaderEpoch: p.LeaderEpoch, From: p.ISR}
	for _, m := range members {
		change.To = append(change.To,
			metadata.InSync{Broker: m.self.ID, Epoch: m.epoch(),
				ReplicaIncarnation: p.ReplicaIncarnation(m.self.ID)})
	}
	return change
}

func TestChangeISRIsACompareAndSwap(t *testing.T) {
	fs := vfs.NewFault(memory(t))
	s, brokers := replicated(t, fs)
	shrink := proposalOf(s, brokers[0], brokers[1])
	stale := proposalOf(s, brokers[0], brokers[2])
	if err := changeISR(t, s, shrink); err != nil {
		t.Fatal(err)
	}
	if err := changeISR(t, s, stale); !errors.Is(err, metadata.ErrISRConflict) {
		t.Errorf("from an ISR that is no more: %v", err)
	}
	grow := proposalOf(s, brokers...)
	brokers[2].down()
	brokers[2].up()
	if err := changeISR(t, s, grow); !errors.Is(err, metadata.ErrISRConflict) {
		t.Errorf("an incarnation that is gone: %v", err)
	}
	grow = proposalOf(s, brokers...)
	fs.Inject(vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC})
	if err := changeISR(t, s, grow); err == nil || errors.Is(err, metadata.ErrISRConflict) {
		t.Errorf("what is not on the disk is no conflict, and not done: %v", err)
	}
	expect(t, s, "not written", "leader 0 epoch 1 isr [0 1] replicas [0 1 2] target []")
	fs.Clear()
	if err := changeISR(t, s, grow); err != nil {
		t.Error(err)
	}
	grow.Topic = metadata.NewID()
	if err := changeISR(t, s, grow); !errors.Is(err, metadata.ErrISRConflict) {
		t.Errorf("of no topic: %v", err)
	}
}

// TestAWriteThatFailedHalfwayIsWrittenOver: the file was renamed into place, but the directory not
// synced. The leader does not count with the member that it proposed; so a file that says otherwise
// must not outlive the next change, even one that changes nothing.
func TestAWriteThatFailedHalfwayIsWrittenOver(t *testing.T) {
	mem := memory(t)
	fs := vfs.NewFault(mem)
	s, brokers := replicated(t, fs)
	if err := changeISR(t, s, proposalOf(s, brokers[0], brokers[1])); err != nil {
		t.Fatal(err)
	}
	fs.Inject(vfs.Rule{Op: vfs.OpSyncDir, Times: 1})
	if err := changeISR(t, s, proposalOf(s, brokers...)); !errors.Is(err, ErrNotWritten) {
		t.Fatalf("error %v, want one of the disk", err)
	}
	if err := changeISR(t, s, proposalOf(s, brokers[0], brokers[1])); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "found out", "leader 0 epoch 1 isr [0 1] replicas [0 1 2] target []")
	content, err := mem.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	written, err := decode(content)
	if err != nil {
		t.Fatal(err)
	}
	if got := written.Topics[0].Partitions[0].members(); len(got) != 2 {
		t.Errorf("in sync are %v, says the file", got)
	}
}

// TestProposalsOfManyPartitionsShareAWrite: every one is answered for itself, and each is in effect
// by then.
func TestProposalsOfManyPartitionsShareAWrite(t *testing.T) {
	fs := vfs.NewFault(memory(t))
	s := open(t, fs)
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 50, replicas: 3}`)); err != nil {
		t.Fatal(err)
	}
	s.Hold()
	brokers := startAll(t, s, 3)
	topic := s.Image().Topic("a")
	var changes []metadata.ISRChange
	for _, p := range topic.Partitions {
		change := metadata.ISRChange{Topic: topic.ID, Partition: p.Index,
			LeaderEpoch: p.LeaderEpoch, From: p.ISR}
		change.To = []metadata.InSync{{Broker: p.Leader, Epoch: brokers[p.Leader].epoch(),
			ReplicaIncarnation: p.ReplicaIncarnation(p.Leader)}}
		changes = append(changes, change)
	}
	const stale = 7
	changes[stale].LeaderEpoch++
	settled := map[int]int{}
	before := fs.Count()
	s.ChangeISR(t.Context(), changes, func(i int, err error) {
		settled[i]++
		if want := i == stale; errors.Is(err, metadata.ErrISRConflict) != want || err != nil &&
			!want {
			t.Errorf("partition %d: %v", i, err)
		}
		if got := s.Image().Topic("a").Partitions[i].ISR; i != stale && len(got) != 1 {
			t.Errorf("partition %d was answered before it was so: %v", i, got)
		}
	})
	operations := fs.Count() - before
	for i := range changes {
		if settled[i] != 1 {
			t.Errorf("partition %d was answered %d times", i, settled[i])
		}
	}
	before = fs.Count()
	changes[stale].LeaderEpoch--
	if err := changeISR(t, s, changes[stale]); err != nil {
		t.Fatal(err)
	}
	if one := fs.Count() - before; operations != one {
		t.Errorf("%d changes took %d operations on files, one takes %d", len(changes), operations,
			one)
	}
}

func TestABrokerThatLeavesHandsOver(t *testing.T) {
	s, brokers := replicated(t, memory(t))
	session := Session{s, 0}
	if err := session.AnnounceShutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "it leaves", "leader 1 epoch 2 isr [1 2] replicas [0 1 2] target []")
	if b, ok := s.Image().Broker(0); !ok || !b.Leaving {
		t.Errorf("it is shown as %+v", b)
	}
	if err := changeISR(t, s, proposalOf(s, brokers...)); !errors.Is(err, metadata.ErrISRConflict) {
		t.Errorf("it may join again: %v", err)
	}
	brokers[0].down()
	brokers[0].self.CleanEpoch = 1
	brokers[0].up()
	if b, _ := s.Image().Broker(0); b.Leaving {
		t.Error("a new incarnation leaves, too")
	}
	inSync(t, s, brokers...)
	if err := s.LeaveAll(); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "all leave", "leader 1 epoch 2 isr [0 1 2] replicas [0 1 2] target []")
}

// TestAStopInOrderKeepsAllInSync: they are known by their clean disks when the cluster starts
// again.
func TestAStopInOrderKeepsAllInSync(t *testing.T) {
	fs := memory(t)
	s, brokers := replicated(t, fs)
	if err := s.LeaveAll(); err != nil {
		t.Fatal(err)
	}
	for _, b := range brokers {
		b.down()
	}
	s = open(t, fs.CrashClone())
	s.Hold()
	for _, b := range brokers {
		b.s, b.self.CleanEpoch = s, 1
		b.up()
	}
	expect(t, s, "after a start", "leader 0 epoch 3 isr [0 1 2] replicas [0 1 2] target []")
}

func TestLostRecordsAreForSomebodyToAccept(t *testing.T) {
	s, brokers := replicated(t, memory(t))
	brokers[1].down()
	brokers[2].down()
	brokers[0].down()
	brokers[0].self.Directory = "empty"
	brokers[0].up()
	brokers[2].up()
	expect(t, s, "the last in sync has another disk",
		"leader -1 epoch 2 isr [0] replicas [0 1 2] target []")
	if err := s.AcceptDataLoss(); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "what another has is taken", "leader 2 epoch 3 isr [2] replicas [0 1 2] target []")
}

func TestATopicMayRatherLoseRecords(t *testing.T) {
	s := open(t, memory(t))
	if err := s.Sync(nil, 2, topics(t,
		`a {partitions: 1, replicas: 2, uncleanLeaderElection: true}`)); err != nil {
		t.Fatal(err)
	}
	s.Hold()
	brokers := startAll(t, s, 2)
	brokers[1].down()
	brokers[1].up()
	brokers[0].down()
	expect(t, s, "the only one in sync is gone",
		"leader 1 epoch 2 isr [1] replicas [0 1] target []")
}

func TestReplicasAreAddedAndTakenAway(t *testing.T) {
	s, brokers := replicated(t, memory(t))
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 1, replicas: 1}`)); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "one is enough", "leader 0 epoch 1 isr [0] replicas [0] target []")
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 1, replicas: 2}`)); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "two are wanted", "leader 0 epoch 1 isr [0] replicas [0 1] target []")
	inSync(t, s, brokers[0], brokers[1])
	expect(t, s, "the second is in sync", "leader 0 epoch 1 isr [0 1] replicas [0 1] target []")
}

// TestWhatWasShownIsOnTheDisk: after a crash, epochs and who is in sync are what brokers were told
// last.
func TestWhatWasShownIsOnTheDisk(t *testing.T) {
	fs := memory(t)
	s, brokers := replicated(t, fs)
	brokers[0].down()
	inSync(t, s, brokers[1])
	p, again := s.Image().Topic("a").Partitions[0],
		open(t, fs.CrashClone()).Image().Topic("a").Partitions[0]
	if again.LeaderEpoch != p.LeaderEpoch || !slices.Equal(again.ISR, p.ISR) {
		t.Errorf("shown was %+v, found is %+v", p, again)
	}
}

// TestRacks spreads replicas over them.
func TestRacks(t *testing.T) {
	s := open(t, memory(t))
	if err := s.SetRacks([]string{"x", "x", "y"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(nil, 6, topics(t, `a {partitions: 20, replicas: 2}`)); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Image().Topic("a").Partitions {
		if y := func(id int32) bool { return id%3 == 2 }; y(p.Replicas[0]) == y(p.Replicas[1]) {
			t.Errorf("partition %d is in one rack: %v", p.Index, p.Replicas)
		}
	}
}
