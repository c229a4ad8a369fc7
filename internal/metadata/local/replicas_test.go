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

// testBroker is a broker that a test can register and unregister.
type testBroker struct {
	t    *testing.T
	s    *Store
	self metadata.Broker
	stop func()
}

func startAll(t *testing.T, s *Store, brokers int) []*testBroker {
	t.Helper()
	all := make([]*testBroker, brokers)
	for i := range all {
		self := metadata.Broker{ID: int32(i), Directory: fmt.Sprint("disk-", i), CleanEpoch: -1}
		all[i] = &testBroker{t: t, s: s, self: self}
		all[i].up()
	}
	t.Cleanup(func() {
		for _, a := range all {
			a.down()
		}
	})
	return all
}

// up registers the broker, and waits until the broker has received an image.
func (a *testBroker) up() {
	a.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	applied := make(chan struct{})
	var once sync.Once
	running.Go(func() {
		if err := a.s.Run(ctx, a.self,
			func(*metadata.Image) { once.Do(func() { close(applied) }) }); err != nil {
			a.t.Error(err)
			once.Do(func() { close(applied) })
		}
	})
	<-applied
	a.stop = func() { cancel(); running.Wait() }
}

// down stops the broker if it is up.
func (a *testBroker) down() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
}

// epoch returns the broker's current epoch.
func (a *testBroker) epoch() int64 {
	b, _ := a.s.Image().Broker(a.self.ID)
	return b.Epoch
}

// formatPartition formats a partition as one line.
func formatPartition(s *Store, topic string, index int) string {
	p := s.Image().Topic(topic).Partitions[index]
	return fmt.Sprintf("leader %d epoch %d isr %v replicas %v target %v", p.Leader, p.LeaderEpoch,
		p.ISR, p.Replicas, p.Target)
}

func expect(t *testing.T, s *Store, when, want string) {
	t.Helper()
	if got := formatPartition(s, "a", 0); got != want {
		t.Errorf("%s:\n got %s\nwant %s", when, got, want)
	}
}

// replicated returns a store with a topic "a", which has one partition with replicas on three
// brokers. All three brokers are up.
func replicated(t *testing.T, fs vfs.FS) (*Store, []*testBroker) {
	t.Helper()
	s := open(t, fs)
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 1, replicas: 3}`)); err != nil {
		t.Fatal(err)
	}
	s.Hold()
	return s, startAll(t, s, 3)
}

func TestElectionsWaitForAllBrokersAtTheStart(t *testing.T) {
	s, _ := replicated(t, memory(t))
	if err := s.AwaitBrokers(t.Context(), 3); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.AwaitBrokers(ended, 4); !errors.Is(err, context.Canceled) {
		t.Errorf("AwaitBrokers(4) with a cancelled context: got error %v, want Canceled", err)
	}
	expect(t, s, "all brokers are up", "leader 0 epoch 1 isr [0 1 2] replicas [0 1 2] target []")

	s = open(t, memory(t))
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 1, replicas: 3}`)); err != nil {
		t.Fatal(err)
	}
	s.Hold()
	a := &testBroker{t: t, s: s, self: metadata.Broker{ID: 1, CleanEpoch: -1}}
	a.up()
	defer a.down()
	expect(t, s, "one broker is up", "leader -1 epoch 0 isr [] replicas [0 1 2] target []")
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "after Release", "leader 1 epoch 1 isr [1] replicas [0 1 2] target []")
}

func TestLeadershipMovesWhenBrokersStop(t *testing.T) {
	s, brokers := replicated(t, memory(t))
	brokers[0].down()
	expect(t, s, "the leader is down", "leader 1 epoch 2 isr [1 2] replicas [0 1 2] target []")
	brokers[2].down()
	expect(t, s, "a follower is down", "leader 1 epoch 2 isr [1] replicas [0 1 2] target []")
	brokers[0].up()
	expect(t, s, "a broker is up again, out of sync",
		"leader 1 epoch 2 isr [1] replicas [0 1 2] target []")
	brokers[1].down()
	expect(t, s, "the last in-sync replica is down",
		"leader -1 epoch 3 isr [1] replicas [0 1 2] target []")
	brokers[1].up()
	expect(t, s, "the last in-sync replica is up again",
		"leader 1 epoch 4 isr [1] replicas [0 1 2] target []")
	inSync(t, s, brokers[0], brokers[1])
	expect(t, s, "another replica is in sync",
		"leader 1 epoch 4 isr [0 1] replicas [0 1 2] target []")
	if err := s.Balance(); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "after Balance", "leader 0 epoch 5 isr [0 1] replicas [0 1 2] target []")
}

// inSync sets the ISR of partition a-0 to members.
func inSync(t *testing.T, s *Store, members ...*testBroker) {
	t.Helper()
	if err := changeISR(t, s, isrChange(s, members...)); err != nil {
		t.Fatal(err)
	}
}

// changeISR makes one ISR change and returns its error.
func changeISR(t *testing.T, s *Store, change metadata.ISRChange) (err error) {
	s.ChangeISR(t.Context(), []metadata.ISRChange{change},
		func(_ int, _ int64, fault error) { err = fault })
	return err
}

func isrChange(s *Store, members ...*testBroker) metadata.ISRChange {
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

func TestChangeISRIsCompareAndSwap(t *testing.T) {
	fs := vfs.NewFault(memory(t))
	s, brokers := replicated(t, fs)
	shrink := isrChange(s, brokers[0], brokers[1])
	stale := isrChange(s, brokers[0], brokers[2])
	if err := changeISR(t, s, shrink); err != nil {
		t.Fatal(err)
	}
	if err := changeISR(t, s, stale); !errors.Is(err, metadata.ErrISRConflict) {
		t.Errorf("change based on an outdated ISR: got error %v, want ErrISRConflict", err)
	}
	grow := isrChange(s, brokers...)
	brokers[2].down()
	brokers[2].up()
	if err := changeISR(t, s, grow); !errors.Is(err, metadata.ErrISRConflict) {
		t.Errorf("change with an outdated broker epoch: got error %v, want ErrISRConflict", err)
	}
	grow = isrChange(s, brokers...)
	fs.Inject(vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC})
	if err := changeISR(t, s, grow); err == nil || errors.Is(err, metadata.ErrISRConflict) {
		t.Errorf("failed write: got error %v, want one other than ErrISRConflict", err)
	}
	expect(t, s, "after a failed write", "leader 0 epoch 1 isr [0 1] replicas [0 1 2] target []")
	fs.Clear()
	if err := changeISR(t, s, grow); err != nil {
		t.Error(err)
	}
	grow.Topic = metadata.NewID()
	if err := changeISR(t, s, grow); !errors.Is(err, metadata.ErrISRConflict) {
		t.Errorf("change of an unknown topic: got error %v, want ErrISRConflict", err)
	}
}

// TestPartiallyFailedWriteIsReplaced checks that, after a change whose new file was renamed but
// whose directory sync failed, the next change writes the file even if it has no effect on the
// document. The first change's caller received an error.
func TestPartiallyFailedWriteIsReplaced(t *testing.T) {
	mem := memory(t)
	fs := vfs.NewFault(mem)
	s, brokers := replicated(t, fs)
	if err := changeISR(t, s, isrChange(s, brokers[0], brokers[1])); err != nil {
		t.Fatal(err)
	}
	fs.Inject(vfs.Rule{Op: vfs.OpSyncDir, Times: 1})
	if err := changeISR(t, s, isrChange(s, brokers...)); !errors.Is(err, ErrNotWritten) {
		t.Fatalf("got error %v, want ErrNotWritten", err)
	}
	if err := changeISR(t, s, isrChange(s, brokers[0], brokers[1])); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "after the next change", "leader 0 epoch 1 isr [0 1] replicas [0 1 2] target []")
	content, err := mem.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	written, err := decode(content)
	if err != nil {
		t.Fatal(err)
	}
	if got := memberIDs(written.placed(written.Topics[0].key(0))); len(got) != 2 {
		t.Errorf("the ISR in the file: got %v, want two members", got)
	}
}

// TestISRChangesShareAWrite checks that the ISR changes of several partitions are made in one
// write. Each change must have its own result, reported when the image contains the change.
func TestISRChangesShareAWrite(t *testing.T) {
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
	s.ChangeISR(t.Context(), changes, func(i int, _ int64, err error) {
		settled[i]++
		if want := i == stale; errors.Is(err, metadata.ErrISRConflict) != want || err != nil &&
			!want {
			t.Errorf("partition %d: got error %v", i, err)
		}
		if got := s.Image().Topic("a").Partitions[i].ISR; i != stale && len(got) != 1 {
			t.Errorf(
				"the result of partition %d was reported before the image contained the change: got ISR %v",
				i,
				got,
			)
		}
	})
	operations := fs.Count() - before
	for i := range changes {
		if settled[i] != 1 {
			t.Errorf("partition %d: got %d results, want 1", i, settled[i])
		}
	}
	before = fs.Count()
	changes[stale].LeaderEpoch--
	if err := changeISR(t, s, changes[stale]); err != nil {
		t.Fatal(err)
	}
	if one := fs.Count() - before; operations != one {
		t.Errorf(
			"%d changes needed %d file operations, want %d as for one change",
			len(changes),
			operations,
			one,
		)
	}
}

func TestLeavingBrokerHandsOverLeadership(t *testing.T) {
	s, brokers := replicated(t, memory(t))
	session := Session{s, 0}
	if err := session.AnnounceShutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(
		t,
		s,
		"broker 0 announced its shutdown",
		"leader 1 epoch 2 isr [1 2] replicas [0 1 2] target []",
	)
	if b, ok := s.Image().Broker(0); !ok || !b.Leaving {
		t.Errorf("broker 0 in the image: %+v", b)
	}
	if err := changeISR(t, s, isrChange(s, brokers...)); !errors.Is(err, metadata.ErrISRConflict) {
		t.Errorf("adding a leaving broker to the ISR: got error %v, want ErrISRConflict", err)
	}
	brokers[0].down()
	brokers[0].self.CleanEpoch = 1
	brokers[0].up()
	if b, _ := s.Image().Broker(0); b.Leaving {
		t.Error("the restarted broker is leaving")
	}
	inSync(t, s, brokers...)
	if err := s.LeaveAll(); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "after LeaveAll", "leader 1 epoch 2 isr [0 1 2] replicas [0 1 2] target []")
}

// TestClusterShutdownKeepsAllInSync checks that, after a clean shutdown of the whole cluster, the
// clean epochs prove at the next start that all replicas are still in sync.
func TestClusterShutdownKeepsAllInSync(t *testing.T) {
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
	expect(t, s, "after the next start", "leader 0 epoch 3 isr [0 1 2] replicas [0 1 2] target []")
}

func TestAcceptDataLoss(t *testing.T) {
	s, brokers := replicated(t, memory(t))
	brokers[1].down()
	brokers[2].down()
	brokers[0].down()
	brokers[0].self.Directory = "empty"
	brokers[0].up()
	brokers[2].up()
	expect(t, s, "the last in-sync replica has a new disk",
		"leader -1 epoch 2 isr [0] replicas [0 1 2] target []")
	if err := s.AcceptDataLoss(); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "after AcceptDataLoss", "leader 2 epoch 3 isr [2] replicas [0 1 2] target []")
}

func TestUncleanElectionOfATopic(t *testing.T) {
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
	expect(t, s, "the only in-sync replica is down",
		"leader 1 epoch 2 isr [1] replicas [0 1] target []")
}

func TestReplicasAreAddedAndRemoved(t *testing.T) {
	s, brokers := replicated(t, memory(t))
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 1, replicas: 1}`)); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "one replica requested", "leader 0 epoch 1 isr [0] replicas [0] target []")
	if err := s.Sync(nil, 3, topics(t, `a {partitions: 1, replicas: 2}`)); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "two replicas requested", "leader 0 epoch 1 isr [0] replicas [0 1] target []")
	inSync(t, s, brokers[0], brokers[1])
	expect(t, s, "the second replica is in sync",
		"leader 0 epoch 1 isr [0 1] replicas [0 1] target []")
}

// TestPublishedStateSurvivesACrash checks that, after a crash, the leader epoch and the ISR are the
// same as in the last published image.
func TestPublishedStateSurvivesACrash(t *testing.T) {
	fs := memory(t)
	s, brokers := replicated(t, fs)
	brokers[0].down()
	inSync(t, s, brokers[1])
	p, again := s.Image().Topic("a").Partitions[0],
		open(t, fs.CrashClone()).Image().Topic("a").Partitions[0]
	if again.LeaderEpoch != p.LeaderEpoch || !slices.Equal(again.ISR, p.ISR) {
		t.Errorf("published %+v, but after the crash got %+v", p, again)
	}
}

// TestRacks checks that the replicas of each partition are in different racks.
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
