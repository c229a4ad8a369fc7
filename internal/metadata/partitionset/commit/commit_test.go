package commit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// server simulates an API server with one PartitionSet. Requests take a random time. Some answers
// are lost, and some writes arrive after their sender has stopped waiting.
type server struct {
	mu      sync.Mutex
	stored  v1alpha1.PartitionSet
	version int
	writes  int
	random  *rand.Rand
	faults  bool
	late    sync.WaitGroup // writes that have not yet arrived
}

func newServer(seed uint64) *server {
	s := &server{random: rand.New(rand.NewPCG(seed, 1))}
	s.stored.Name, s.stored.UID = "demo-0", "uid"
	s.bumpLocked()
	return s
}

func (s *server) bumpLocked() {
	s.version++
	s.stored.ResourceVersion = strconv.Itoa(s.version)
}

func (s *server) roll(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

func (s *server) current() *v1alpha1.PartitionSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored.DeepCopy()
}

func (s *server) put(set *v1alpha1.PartitionSet, part part) (*v1alpha1.PartitionSet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set.ResourceVersion != s.stored.ResourceVersion {
		return nil, ErrConflict
	}
	if part == spec {
		s.stored.Spec = *set.Spec.DeepCopy()
	} else {
		s.stored.Status = *set.Status.DeepCopy()
	}
	s.writes++
	s.bumpLocked()
	return s.stored.DeepCopy(), nil
}

// client is one writer's API. Its watch lags behind.
type client struct {
	*server
	watched *v1alpha1.PartitionSet
	stuck   bool // true if the watch delivers nothing
}

func (c *client) Latest(string) *v1alpha1.PartitionSet {
	if c.watched == nil || !c.stuck && c.roll(3) == 0 {
		c.watched = c.current()
	}
	return c.watched
}

func (c *client) Get(ctx context.Context, _ string) (*v1alpha1.PartitionSet, error) {
	time.Sleep(time.Duration(c.roll(10)) * time.Millisecond)
	return c.current(), ctx.Err()
}

func (c *client) UpdateSpec(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	return c.update(ctx, set, spec)
}

func (c *client) UpdateStatus(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	return c.update(ctx, set, status)
}

func (c *client) update(ctx context.Context, set *v1alpha1.PartitionSet,
	part part) (*v1alpha1.PartitionSet, error) {
	set = set.DeepCopy()
	time.Sleep(time.Duration(1+c.roll(10)) * time.Millisecond)
	if c.faults {
		switch c.roll(12) {
		case 0: // the answer is lost
			_, _ = c.put(set, part)
			<-ctx.Done()
			return nil, ctx.Err()
		case 1: // the write arrives later
			c.late.Go(func() {
				time.Sleep(time.Duration(c.roll(30_000)) * time.Millisecond)
				_, _ = c.put(set, part)
			})
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	return c.put(set, part)
}

var key = partitionset.Key{Topic: "orders"}

// raise returns a change that increments a partition's leader epoch.
func raise(key partitionset.Key, decided *int32) Change {
	return func(s *partitionset.Set) error {
		state := partitionset.State{Partition: placement.Partition{Leader: placement.NoLeader,
			Replicas: []int32{0}, ReplicaIncarnations: map[int32]string{0: "i"}}}
		if entry, ok := s.Get(key); ok {
			state = *entry.State
		}
		state.LeaderEpoch++
		*decided = state.LeaderEpoch
		s.PutState(key, state)
		return nil
	}
}

// TestNoChangeIsLost checks that no change is lost while several writers increment the leader
// epochs of the partitions in one set, answers are lost and writes arrive late. Each stored epoch
// must equal the number of increments that were stored: each increment is based on the stored
// epoch.
func TestNoChangeIsLost(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			server := newServer(seed)
			server.faults = true
			const partitions = 4
			var confirmed, unknown [partitions]int32
			var mu sync.Mutex
			var done sync.WaitGroup
			for range 3 {
				writer := New(&client{server: server}, Options{Timeout: 5 * time.Second})
				for worker := range 6 {
					index := worker % partitions
					done.Go(func() {
						for range 10 {
							ctx, cancel := context.WithTimeout(t.Context(), time.Second)
							var decided int32
							err := writer.ChangeStatus(ctx, "demo-0",
								raise(partitionset.Key{Topic: "orders", Index: int32(index)}, &decided))
							cancel()
							mu.Lock()
							switch {
							case err == nil:
								confirmed[index]++
							case !errors.Is(err, ErrConflict):
								unknown[index]++
							}
							mu.Unlock()
							time.Sleep(time.Duration(server.roll(100)) * time.Millisecond)
						}
					})
				}
			}
			done.Wait()
			server.late.Wait()
			final, faults := partitionset.Decode(server.current(), nil)
			for index := range partitions {
				entry, _ := final.Get(partitionset.Key{Topic: "orders", Index: int32(index)})
				got, changes := entry.State.LeaderEpoch, entry.State.Changes
				low, high := confirmed[index], confirmed[index]+unknown[index]
				if got < low || got > high || changes != int64(got) || len(faults) > 0 {
					t.Errorf("seed %d: partition %d has epoch %d after %d changes, want %d to %d",
						seed, index, got, changes, low, high)
				}
			}
		})
	}
}

// TestChangesShareWrites checks that changes requested while a write is in progress share the next
// write.
func TestChangesShareWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(1)
		writer := New(&client{server: server}, Options{})
		var done sync.WaitGroup
		for index := range int32(100) {
			done.Go(func() {
				var decided int32
				if err := writer.ChangeStatus(t.Context(), "demo-0",
					raise(partitionset.Key{Topic: "orders", Index: index}, &decided)); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		if got := len(server.current().Status.Partitions); got != 100 || server.writes > 3 {
			t.Errorf("%d partitions were written in %d writes", got, server.writes)
		}
	})
}

// TestRefusalIsDecidedOnTheStoredVersion checks that a change that was refused on the basis of the
// watched version is decided again on the stored version.
func TestRefusalIsDecidedOnTheStoredVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(2)
		stale := &client{server: server, watched: server.current()}
		var decided int32
		other := New(&client{server: server}, Options{})
		if err := other.ChangeStatus(t.Context(), "demo-0", raise(key, &decided)); err != nil {
			t.Fatal(err)
		}
		refusal := errors.New("there is no such partition")
		ifPresent := func(s *partitionset.Set) error {
			if _, ok := s.Get(key); !ok {
				return refusal
			}
			return raise(key, &decided)(s)
		}
		never := func(*partitionset.Set) error { return refusal }
		errs := New(stale, Options{}).ChangeStatuses(t.Context(), "demo-0", false,
			[]Change{ifPresent, never})
		if errs[0] != nil || !errors.Is(errs[1], refusal) || decided != 2 {
			t.Errorf("got %v, epoch %d", errs, decided)
		}
	})
}

// TestNothingToChangeIsConfirmedByTheStoredVersion checks that the watched version, which may be
// old, does not confirm a proposed ISR. A leader that does not know whether its last ISR change was
// made proposes an ISR again to find out. If the watched version contains that ISR, there only
// seems to be nothing to write.
func TestNothingToChangeIsConfirmedByTheStoredVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(5)
		other := New(&client{server: server}, Options{})
		epoch := func() error { return other.ChangeStatus(t.Context(), "demo-0", raise(key, new(int32))) }
		if err := epoch(); err != nil {
			t.Fatal(err)
		}
		old := server.current()
		stale := New(&client{server: server, watched: old, stuck: true}, Options{})
		if err := epoch(); err != nil {
			t.Fatal(err)
		}
		moved := errors.New("the epoch is not 1")
		still := func(s *partitionset.Set) error {
			if entry, _ := s.Get(key); entry.State.LeaderEpoch != 1 {
				return moved
			}
			return nil
		}
		if err := stale.ChangeStatus(t.Context(), "demo-0", still); !errors.Is(err, moved) {
			t.Errorf("got %v, although another epoch is stored", err)
		}
		trusting := New(&client{server: server, watched: old, stuck: true},
			Options{TrustWatch: true})
		if err := trusting.ChangeStatus(t.Context(), "demo-0", still); err != nil {
			t.Errorf("with TrustWatch: got %v", err)
		}
		if server.writes != 2 {
			t.Errorf("%d writes, want 2: a change without effect wrote something", server.writes)
		}
	})
}

// blocked is an API whose writes wait until the test releases them.
type blocked struct {
	*client
	entered chan string
	release chan struct{}
}

func (b *blocked) UpdateStatus(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	b.entered <- set.Name
	select {
	case <-b.release:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return b.client.UpdateStatus(ctx, set)
}

// TestCanceledChangeIsNotWritten checks that a waiting change is not made once its caller has
// stopped waiting, and that a write is cancelled if no caller waits for it any longer.
func TestCanceledChangeIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(3)
		api := &blocked{&client{server: server}, make(chan string, 10), make(chan struct{})}
		writer := New(api, Options{})
		var decided int32
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 2)
		go func() {
			results <- writer.ChangeStatus(t.Context(), "demo-0", raise(key, &decided))
		}()
		<-api.entered
		go func() {
			results <- writer.ChangeStatus(ctx, "demo-0",
				raise(partitionset.Key{Topic: "late"}, new(int32)))
		}()
		synctest.Wait()
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that gave up got %v", err)
		}
		close(api.release)
		if err := <-results; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := server.current().Status.Partitions; len(got) != 1 || server.writes != 1 {
			t.Errorf("%d writes: %v", server.writes, got)
		}
	})
}

// TestUrgentSetsAreWrittenFirst checks, with one write at a time, that sets with urgent changes are
// written before sets with earlier changes.
func TestUrgentSetsAreWrittenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(4)
		api := &blocked{&client{server: server}, make(chan string, 10), make(chan struct{})}
		writer := New(named{api}, Options{Concurrent: 1})
		var done sync.WaitGroup
		defer done.Wait()
		for number := range 4 {
			done.Go(func() {
				writer.ChangeStatuses(t.Context(), fmt.Sprintf("demo-%d", number), number == 3,
					[]Change{raise(key, new(int32))})
			})
			synctest.Wait()
		}
		close(api.release)
		order := ""
		for range 4 {
			order += (<-api.entered)[len("demo-"):]
		}
		if order != "0312" {
			t.Errorf("the sets were written in the order %s, want 0312", order)
		}
	})
}

// TestConflictIsDecidedOnTheWatchedVersion checks that the writer reads nothing from the API server
// after a conflict if the watch delivers the other writer's version before the write is repeated.
func TestConflictIsDecidedOnTheWatchedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(5)
		api := &watching{client{server: server, watched: server.current()}, 0}
		other := New(&client{server: server}, Options{})
		if err := other.ChangeStatus(t.Context(), "demo-0", raise(key, new(int32))); err != nil {
			t.Fatal(err)
		}
		var decided int32
		err := New(api, Options{}).ChangeStatus(t.Context(), "demo-0", raise(key, &decided))
		if err != nil || decided != 2 || api.reads != 0 || server.writes != 2 {
			t.Errorf("got %v, leader epoch %d, %d reads, %d writes; want epoch 2 without a read", err,
				decided, api.reads, server.writes)
		}
	})
}

// watching is a client whose watch delivers the first version, and from then on the current
// version.
type watching struct {
	client
	reads int
}

func (w *watching) Latest(string) *v1alpha1.PartitionSet {
	first := w.watched
	w.watched = w.current()
	return first
}

func (w *watching) Get(ctx context.Context, set string) (*v1alpha1.PartitionSet, error) {
	w.reads++
	return w.client.Get(ctx, set)
}

// TestPauseDoesNotDelayOtherSets checks, with one write at a time, that the write of set 1 does not
// wait for the pauses of set 0, whose write conflicts repeatedly.
func TestPauseDoesNotDelayOtherSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writer := New(conflicting{&client{server: newServer(7)}}, Options{Concurrent: 1})
		var first sync.WaitGroup
		defer first.Wait()
		first.Go(func() {
			err := writer.ChangeStatus(t.Context(), "demo-0", raise(key, new(int32)))
			if !errors.Is(err, ErrConflict) {
				t.Errorf("got %v, want a conflict", err)
			}
		})
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		if err := writer.ChangeStatus(t.Context(), "demo-1", raise(key, new(int32))); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("the other set was written after %s", took)
		}
	})
}

// conflicting is an API on which writes of set 0 conflict.
type conflicting struct{ *client }

func (c conflicting) Latest(set string) *v1alpha1.PartitionSet {
	watched := c.current()
	watched.Name = set
	return watched
}

func (c conflicting) UpdateStatus(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	if set.Name == "demo-1" {
		return c.client.UpdateStatus(ctx, set)
	}
	time.Sleep(time.Millisecond)
	return nil, ErrConflict
}

func (c conflicting) Get(_ context.Context, set string) (*v1alpha1.PartitionSet, error) {
	return c.Latest(set), nil
}

// TestRefusalIsReportedAfterAFailure checks what the caller of a refused change receives if the
// change was refused on the watched version, and the write of another change fails. The caller must
// receive the refusal, which may state that the outcome is unknown, and not a conflict.
func TestRefusalIsReportedAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &blocked{&client{server: newServer(8)}, make(chan string, 10), make(chan struct{})}
		refusal := errors.New("the outcome is unknown")
		errs := New(named{api}, Options{Timeout: time.Second}).ChangeStatuses(t.Context(), "demo-0",
			false, []Change{raise(key, new(int32)), func(*partitionset.Set) error { return refusal }})
		if errors.Is(errs[0], ErrConflict) || errs[0] == nil || !errors.Is(errs[1], refusal) {
			t.Errorf("got %v", errs)
		}
	})
}

// TestManyWritersWriteFewSetsAtOnce checks that each of 20 writers may write three sets at the same
// time, and each of 1,000 writers only one set.
func TestManyWritersWriteFewSetsAtOnce(t *testing.T) {
	for writers, want := range map[int]int{0: 8, 1: 8, 3: 8, 20: 3, 1000: 1} {
		synctest.Test(t, func(t *testing.T) {
			api := &blocked{&client{server: newServer(6)}, make(chan string, 1000),
				make(chan struct{})}
			writer := New(named{api}, Options{Writers: func() int { return writers }})
			var done sync.WaitGroup
			defer done.Wait()
			for number := range 16 {
				done.Go(func() {
					_ = writer.ChangeStatus(t.Context(), fmt.Sprintf("demo-%d", number),
						raise(key, new(int32)))
				})
			}
			synctest.Wait()
			if got := len(api.entered); got != want {
				t.Errorf("%d writers: %d sets are written at once, want %d", writers, got, want)
			}
			close(api.release)
		})
	}
}

// named gives each set its own name and a version without conflicts.
type named struct{ *blocked }

func (n named) Latest(set string) *v1alpha1.PartitionSet {
	watched := n.current()
	watched.Name = set
	return watched
}

func (n named) Get(_ context.Context, set string) (*v1alpha1.PartitionSet, error) {
	return n.Latest(set), nil
}
