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

	"heartwood.dev/heartwood/test/kit/process"
)

// consumed is what the members of a group read, and what they were told is committed.
type consumed struct {
	mu        sync.Mutex
	read      map[int32]map[int64]bool // offsets, by partition
	committed map[int32]int64          // the highest offset that was acknowledged, by partition
}

// note takes in records before they are committed.
func (c *consumed) note(r *kgo.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read[r.Partition] == nil {
		c.read[r.Partition] = map[int64]bool{}
	}
	c.read[r.Partition][r.Offset] = true
}

// acknowledged takes in the answer to a commit.
func (c *consumed) acknowledged(asked *kmsg.OffsetCommitRequest,
	answer *kmsg.OffsetCommitResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := map[int32]bool{}
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			taken[p.Partition] = p.ErrorCode == 0
		}
	}
	for _, topic := range asked.Topics {
		for _, p := range topic.Partitions {
			if taken[p.Partition] {
				c.committed[p.Partition] = max(c.committed[p.Partition], p.Offset)
			}
		}
	}
}

func (c *consumed) now() map[int32]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := map[int32]int64{}
	for p, offset := range c.committed {
		at[p] = offset
	}
	return at
}

// member consumes and commits until ctx ends, and leaves.
func (c *consumed) member(ctx context.Context, client *kgo.Client) {
	defer client.Close()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(c.note)
		// A coordinator that is away is asked again with the next poll's offsets.
		client.CommitOffsetsSync(ctx, client.UncommittedOffsets(),
			func(_ *kgo.Client, asked *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse,
				err error) {
				if err == nil {
					c.acknowledged(asked, answer)
				}
			})
	}
}

// check compares with what the group's coordinator says at the end: no commit that was acknowledged
// is lost, and none skipped a record.
func (c *consumed) check(offsets kadm.OffsetResponses) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, told := range c.committed {
		stored, ok := offsets.Lookup("orders", p)
		if !ok || stored.At < told {
			return fmt.Errorf("partition %d: offset %d was acknowledged, the group has %d", p, told,
				stored.At)
		}
		for offset := range stored.At {
			if !c.read[p][offset] {
				return fmt.Errorf("partition %d: offset %d is committed, and nobody has read %d", p,
					stored.At, offset)
			}
		}
	}
	return nil
}

// TestKilledCoordinatorKeepsCommits kills the broker that coordinates a group, of three, while its
// members consume and commit. They go on with another coordinator; what was acknowledged to be
// committed is, and nothing before it was passed over.
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
	c.goesOn(t)
	for range 2 {
		id := r.coordinator("readers")
		before := time.Now()
		r.signal(id, syscall.SIGKILL)
		c.goesOn(t)
		t.Logf(
			"broker %d, the coordinator, was killed; all partitions are committed again after %v",
			id,
			time.Since(before),
		)
	}
	stop()
	members.Wait()
	var offsets kadm.OffsetResponses
	r.ask(func(ctx context.Context, admin *kadm.Client) (err error) {
		offsets, err = admin.FetchOffsets(ctx, "readers")
		return err
	})
	if err := c.check(offsets); err != nil {
		t.Errorf("%v\n%s", err, r.p.Stderr.String())
	}
	r.end()
}

// goesOn waits until every partition has had a commit after it was called.
func (c *consumed) goesOn(t *testing.T) {
	t.Helper()
	from, since := c.now(), time.Now()
	process.Eventually(t, func() string {
		now := c.now()
		for p := range int32(6) {
			if now[p] > from[p] {
				continue
			}
			if time.Since(since) > writesMissing {
				t.Fatalf("partition %d: nothing was committed for %v", p, writesMissing)
			}
			return fmt.Sprintf("a commit of partition %d", p)
		}
		return ""
	})
}

// coordinator finds the broker that coordinates a group.
func (r *replicated) coordinator(group string) (id int) {
	r.t.Helper()
	r.ask(func(ctx context.Context, admin *kadm.Client) error {
		found := admin.FindGroupCoordinators(ctx, group)
		id = int(found[group].NodeID)
		return found.Error()
	})
	return id
}

// ask asks until it succeeds: a broker that was killed may be on its way back.
func (r *replicated) ask(question func(context.Context, *kadm.Client) error) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.bootstrap...),
		kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	process.Eventually(r.t, func() string {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		defer cancel()
		if err := question(ctx, kadm.NewClient(client)); err != nil {
			return err.Error()
		}
		return ""
	})
}
