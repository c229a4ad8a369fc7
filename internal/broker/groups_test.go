package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/coordinator"
)

// consumer is a group member that records its assigned partitions and the records that it has read.
type consumer struct {
	client *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	owned  map[int32]bool
	read   []string
}

// join starts a member of a group that consumes topic rep, with a short heartbeat interval. The
// member commits its offsets after each poll.
func (c *trio) join(group string, more ...kgo.Opt) *consumer {
	c.t.Helper()
	m := &consumer{owned: map[int32]bool{}, done: make(chan struct{})}
	change := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range partitions["rep"] {
				if delete(m.owned, p); owns {
					m.owned[p] = true
				}
			}
		}
	}
	var err error
	m.client, err = kgo.NewClient(append(more, c.seeds(), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics("rep"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.MetadataMinAge(10*time.Millisecond),
		kgo.SessionTimeout(trioWait), kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)),
		kgo.OnPartitionsLost(change(false)))...)
	if err != nil {
		c.t.Fatal(err)
	}
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			m.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.read = append(m.read, string(r.Value))
			})
			// The commit can fail during a rebalance; the next commit contains the same offsets.
			_ = m.client.CommitUncommittedOffsets(ctx)
		}
	}()
	c.t.Cleanup(func() { m.leave() })
	return m
}

// leave leaves the group and closes the client.
func (m *consumer) leave() {
	m.cancel()
	<-m.done
	m.client.Close()
}

func (m *consumer) owns() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.owned)
}

func (m *consumer) has() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.read)
}

// committed returns the sum of the group's committed offsets.
func (c *trio) committed(group string) (sum int64) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), trioWait)
	defer cancel()
	client, err := kgo.NewClient(c.seeds())
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	// The client may send FindCoordinator and Metadata to any broker. It fails without a retry if the
	// coordinator stops between the two requests.
	var offsets kadm.OffsetResponses
	c.await("the committed offsets of group "+group, func() bool {
		offsets, err = kadm.NewClient(client).FetchOffsets(ctx, group)
		return err == nil
	})
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	return sum
}

func (c *trio) send(n int) {
	c.t.Helper()
	client, err := kgo.NewClient(c.seeds(), kgo.DefaultProduceTopic("rep"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), trioWait)
	defer cancel()
	for i := range n {
		record := &kgo.Record{Partition: int32(i % 2), Value: fmt.Appendf(nil, "%d", i)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestGroupSurvivesItsCoordinator checks that a group continues at its committed offsets after its
// coordinator has crashed. Before the crash, one of two members leaves; after it, a new member
// joins.
func TestGroupSurvivesItsCoordinator(t *testing.T) { groupSurvivesItsCoordinator(t, "classic") }

// TestConsumerGroupSurvivesItsCoordinator is TestGroupSurvivesItsCoordinator with the consumer
// protocol (KIP-848).
func TestConsumerGroupSurvivesItsCoordinator(t *testing.T) {
	groupSurvivesItsCoordinator(t, "consumer", kgo.ServerSideBalancer())
}

func groupSurvivesItsCoordinator(t *testing.T, kind string, opts ...kgo.Opt) {
	c := newTrio(t)
	c.await("all replicas to be in sync", c.inSync(3))
	c.send(20)
	first := c.join("g", opts...)
	c.await("the first member to own all partitions",
		func() bool { return first.owns() == 2 && first.has() >= 20 })
	second := c.join("g", opts...)
	c.await("the members to share the partitions",
		func() bool { return first.owns() == 1 && second.owns() == 1 })
	c.await("the group to be listed with its type", func() bool {
		listed, err := kadm.NewClient(first.client).ListGroupsByType(t.Context(), []string{kind})
		return err == nil && len(listed) == 1 && listed["g"].State == "Stable"
	})
	second.leave()
	c.await("the first member to own all partitions again",
		func() bool { return first.owns() == 2 })
	c.await("all offsets to be committed", func() bool { return c.committed("g") == 20 })

	topic := c.metadata.Image().Topic(coordinator.OffsetsTopic)
	if len(topic.Partitions) != 50 || len(topic.Partitions[0].Replicas) != 3 ||
		topic.Settings.MinInSyncReplicas != 2 {
		t.Fatalf("got offsets topic %+v, want 50 partitions, 3 replicas, min.insync.replicas 2", topic)
	}
	ctx, cancel := context.WithTimeout(t.Context(), trioWait)
	defer cancel()
	found := kadm.NewClient(first.client).FindGroupCoordinators(ctx, "g")["g"]
	if found.Err != nil {
		t.Fatal(found.Err)
	}
	c.kill(int(found.NodeID))
	c.start(int(found.NodeID), true)
	if got := c.committed("g"); got != 20 {
		t.Errorf("after the crash: got a sum of offsets of %d, want 20", got)
	}
	c.send(10)
	c.await("the member to continue", func() bool { return first.has() >= 30 })
	c.await("all offsets to be committed", func() bool { return c.committed("g") == 30 })
	first.leave()
	third := c.join("g", opts...)
	c.send(2)
	c.await("a later member to continue at the committed offsets",
		func() bool { return third.has() > 0 })
	if got := third.has(); got > 2 {
		t.Errorf("the later member read %d records, want at most the 2 new ones", got)
	}
}
