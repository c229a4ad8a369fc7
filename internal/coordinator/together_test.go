package coordinator

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// shardOf returns a loaded shard whose goroutine does not run.
func shardOf(b *broker) *shard {
	topic := b.image.Load().Topic(OffsetsTopic)
	s := newShard(b.Runtime, topic.ID, topic.Partitions[0])
	must(b.t, s.load())
	s.state.Loaded(time.Now())
	return s
}

// commits makes the events of commits, one of each group, and of what became of them.
func commits(s *shard, metadata string, groups ...string) (events []event, results []error) {
	results = make([]error, len(groups))
	for i, id := range groups {
		generation := int32(-1)
		if id == "unknown" {
			generation = 5
		}
		var refused error
		events = append(events, event{
			prepare: func(now time.Time) (out group.Output) {
				_, out, refused = s.state.Commit(now,
					group.Commit{Group: id, Generation: generation, Offsets: []group.CommitOffset{
						{Topic: "t",
							Offset: group.Offset{Offset: int64(i), LeaderEpoch: -1, ExpireMs: -1,
								Metadata: metadata}},
					}})
				return out
			},
			stored: func(err error) { results[i] = errors.Join(refused, err) },
		})
	}
	return events, results
}

// Commits that come together are one append, each with what became of it.
func TestCommitsInARowAreOneAppend(t *testing.T) {
	b := newBroker(t, vfs.NewMem(), metadata.NewID())
	defer b.stop()
	b.lead(1, self)
	s := shardOf(b)
	events, results := commits(s, "", "a", "unknown", "b", "a")
	before := testutil.ToFloat64(b.metrics.appends)
	s.together(time.Now(), events)
	if appends := testutil.ToFloat64(b.metrics.appends) - before; appends != 1 {
		t.Errorf("%v appends", appends)
	}
	for i, err := range results {
		if refused := errors.Is(err, group.ErrNotFound); refused != (i == 1) || err != nil &&
			!refused {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	for id, want := range map[string]int64{"a": 3, "b": 2} {
		if got, ok := s.state.Committed(id, "t", 0); !ok || got.Offset != want {
			t.Errorf("group %s: %d, %v; want %d", id, got.Offset, ok, want)
		}
	}
}

// One that cannot be stored fails alone, and the state is what the log has.
func TestCommitThatCannotBeStoredFailsAlone(t *testing.T) {
	b := newBroker(t, vfs.NewMem(), metadata.NewID())
	defer b.stop()
	b.topic.Settings.MessageBytesMax = 1000
	b.lead(1, self)
	s := shardOf(b)
	short, results := commits(s, "short", "a", "b")
	long, longResults := commits(s, strings.Repeat("x", 2000), "c")
	rest, restResults := commits(s, "short", "d")
	s.together(time.Now(), append(append(short, long...), rest...))
	if err := errors.Join(append(results, restResults...)...); err != nil {
		t.Errorf("beside the one that is too large: %v", err)
	}
	if err := longResults[0]; !errors.Is(err, group.ErrRecordTooLarge) {
		t.Errorf("the one that is too large: %v", err)
	}
	again := shardOf(b)
	for id, want := range map[string]bool{"a": true, "b": true, "c": false, "d": true} {
		_, has := s.state.Committed(id, "t", 0)
		if _, stored := again.state.Committed(id, "t", 0); has != want || stored != want {
			t.Errorf("group %s: in the state %v, in the log %v, want %v", id, has, stored, want)
		}
	}
	b.lead(2, 2)
	events, results := commits(s, "", "e", "f")
	if s.together(time.Now(), events); !errors.Is(results[0], ErrNotCoordinator) ||
		!errors.Is(results[1], ErrNotCoordinator) || s.broken {
		t.Errorf("without the partition: %v, broken %v", results, s.broken)
	}
}

// Of a thousand commits that come while nothing can be stored one batch is made, and not one for
// each of all that wait behind it.
func TestCommitsThatCannotBeStoredFailTogether(t *testing.T) {
	b := newBroker(t, vfs.NewMem(), metadata.NewID())
	defer b.stop()
	b.lead(1, self)
	s := shardOf(b)
	groups := make([]string, 1000)
	for i := range groups {
		groups[i] = fmt.Sprint("group-", i)
	}
	groups[500] = "unknown"
	take := func() (results []error, allocated uint64) {
		events, results := commits(s, strings.Repeat("x", 100), groups...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.together(time.Now(), events)
		runtime.ReadMemStats(&after)
		return results, after.TotalAlloc - before.TotalAlloc
	}
	_, stored := take()
	b.lead(2, 2)
	results, failed := take()
	for i, err := range results {
		if unknown := errors.Is(err, group.ErrNotFound); unknown != (i == 500) ||
			errors.Is(err, ErrNotCoordinator) == unknown {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	if failed > 2*stored {
		t.Errorf("%d bytes were allocated to store them, %d to fail", stored, failed)
	}
}

// Each of many that commit at once is told of its own, and batches stay as small as the topic has
// it.
func TestManyCommitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.stop()
		b.topic.Settings.MessageBytesMax = 300
		b.lead(1, self)
		b.loaded()
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				id := fmt.Sprint("group-", i)
				for offset := range int64(5) {
					errs, err := b.Commit(t.Context(),
						group.Commit{Group: id, Generation: -1, Offsets: []group.CommitOffset{
							{Topic: "t",
								Offset: group.Offset{Offset: offset, LeaderEpoch: -1,
									ExpireMs: -1}},
						}})
					if err != nil || errs[0] != nil {
						t.Errorf("%s: %v %v", id, errs, err)
						return
					}
					found, err := b.Committed(t.Context(), id, []group.TopicPartition{{Topic: "t"}})
					if err != nil || found[0].Offset.Offset != offset {
						t.Errorf("%s: committed %d, found %+v, %v", id, offset, found, err)
					}
				}
			})
		}
		all.Wait()
		if n := testutil.ToFloat64(b.metrics.committed); n != 1000 {
			t.Errorf("%v commits are counted", n)
		}
		time.Sleep(countInterval)
		synctest.Wait()
		if got := testutil.CollectAndCount((*shards)(b.Runtime)); got != len(statesShown) {
			t.Errorf("%d states are shown", got)
		}
	})
}
