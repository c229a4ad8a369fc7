package crash

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/process"
)

// consumed stores the offsets that the members of a group have read and committed.
type consumed struct {
	mu sync.Mutex
	// read contains the offsets of the records that a member has read, by partition.
	read      map[int32]map[int64]bool
	committed map[int32]int64 // highest offset in an acknowledged commit, by partition
}

// add stores the offset of a record that was read. It must be called before the offset is
// committed.
func (c *consumed) add(r *kgo.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read[r.Partition] == nil {
		c.read[r.Partition] = map[int64]bool{}
	}
	c.read[r.Partition][r.Offset] = true
}

// acknowledged stores the offsets that a commit response acknowledges.
func (c *consumed) acknowledged(request *kmsg.OffsetCommitRequest,
	response *kmsg.OffsetCommitResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	accepted := map[int32]bool{}
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			accepted[p.Partition] = p.ErrorCode == 0
		}
	}
	for _, topic := range request.Topics {
		for _, p := range topic.Partitions {
			if accepted[p.Partition] {
				c.committed[p.Partition] = max(c.committed[p.Partition], p.Offset)
			}
		}
	}
}

func (c *consumed) now() map[int32]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	positions := map[int32]int64{}
	for p, offset := range c.committed {
		positions[p] = offset
	}
	return positions
}

// member reads records and commits their offsets until ctx ends. Then it leaves the group.
func (c *consumed) member(ctx context.Context, client *kgo.Client) {
	defer client.Close()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(c.add)
		// If a commit fails, the commit after the next poll includes its offsets.
		client.CommitOffsetsSync(ctx, client.UncommittedOffsets(),
			func(_ *kgo.Client, request *kmsg.OffsetCommitRequest,
				response *kmsg.OffsetCommitResponse, err error) {
				if err == nil {
					c.acknowledged(request, response)
				}
			})
	}
}

// check compares c with the coordinator's committed offsets at the end of the test. The coordinator
// must have stored every acknowledged commit, and the members must have read every record below a
// committed offset.
func (c *consumed) check(offsets kadm.OffsetResponses) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, acknowledged := range c.committed {
		stored, ok := offsets.Lookup("orders", p)
		if !ok || stored.At < acknowledged {
			return fmt.Errorf("partition %d: commit of offset %d was acknowledged, stored is %d", p,
				acknowledged, stored.At)
		}
		for offset := range stored.At {
			if !c.read[p][offset] {
				return fmt.Errorf("partition %d: offset %d is committed, but no member has read %d", p,
					stored.At, offset)
			}
		}
	}
	return nil
}

// TestKilledCoordinatorKeepsCommits runs a consumer group on three brokers, and twice kills the
// broker that coordinates the group. The members must continue to commit at another coordinator. At
// the end, no acknowledged commit must be lost, and the members must have read every record below
// the committed offsets.
func TestKilledCoordinatorKeepsCommits(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	c := &consumed{read: map[int32]map[int64]bool{}, committed: map[int32]int64{}}
	ctx, stop := context.WithCancel(t.Context())
	var members sync.WaitGroup
	for range 2 {
		client, err := kgo.NewClient(kgo.SeedBrokers(r.bootstrap...), kgo.ConsumerGroup("readers"),
			kgo.ConsumeTopics("orders"),
			kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.MetadataMinAge(100*time.Millisecond),
			kgo.SessionTimeout(15*time.Second), kgo.RebalanceTimeout(20*time.Second))
		if err != nil {
			stop()
			t.Fatal(err)
		}
		members.Go(func() { c.member(ctx, client) })
	}
	c.awaitCommits(t)
	for range 2 {
		id := r.coordinator("readers")
		before := time.Now()
		r.signal(id, syscall.SIGKILL)
		c.awaitCommits(t)
		t.Logf(
			"killed broker %d, the coordinator; all partitions have new commits after %v",
			id,
			time.Since(before),
		)
	}
	stop()
	members.Wait()
	var offsets kadm.OffsetResponses
	r.retry(func(ctx context.Context, admin *kadm.Client) (err error) {
		offsets, err = admin.FetchOffsets(ctx, "readers")
		return err
	})
	if err := c.check(offsets); err != nil {
		t.Errorf("%v\n%s", err, r.p.Stderr.String())
	}
	r.end()
}

// awaitCommits waits until every partition has had a commit since the call.
func (c *consumed) awaitCommits(t *testing.T) {
	t.Helper()
	from := c.now()
	await.For(t, func() string {
		now := c.now()
		for p := range int32(6) {
			if now[p] > from[p] {
				continue
			}
			return fmt.Sprintf("a commit of partition %d", p)
		}
		return ""
	})
}

// coordinator returns the id of the broker that coordinates a group.
func (r *replicated) coordinator(group string) (id int) {
	r.t.Helper()
	r.retry(func(ctx context.Context, admin *kadm.Client) error {
		found := admin.FindGroupCoordinators(ctx, group)
		id = int(found[group].NodeID)
		return found.Error()
	})
	return id
}

// retry repeats a request until it succeeds, because a killed broker may not have restarted yet.
func (r *replicated) retry(request func(context.Context, *kadm.Client) error) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.bootstrap...),
		kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	ctx := process.WithDeadline(r.t)
	await.For(r.t, func() string {
		if err := request(ctx, kadm.NewClient(client)); err != nil {
			return err.Error()
		}
		return ""
	})
}
