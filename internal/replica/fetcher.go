package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

const (
	// pullBytesMax bounds one answer, pullPartitionBytesMax what it has of one partition
	// (replica.fetch.response.max.bytes and replica.fetch.max.bytes): large enough that catching up
	// is sequential I/O, small enough that no partition waits long.
	pullBytesMax          = 10 << 20
	pullPartitionBytesMax = 1 << 20
	// pullWait is how long a fetch without news stays at the leader.
	pullWait = 500 * time.Millisecond
	// pullTimeout bounds a fetch beyond its wait: a leader that says nothing for so long is not
	// there.
	pullTimeout = 10 * time.Second
	// A partition or a leader that failed is asked again after retryFirst, twice as long after each
	// further failure, up to retryLast.
	retryFirst = 50 * time.Millisecond
	retryLast  = time.Second
	// warnAfter is for how long a leader has not answered when that is worth a warning. One that
	// stops or starts again is no news, and an image soon says who leads instead.
	warnAfter = 5 * time.Second
)

// fetcher copies the partitions that one broker leads: one goroutine, one connection, one fetch at
// a time for all of them.
//
// Partitions under durability Fsync have a fetcher of their own: it asks for more only once what it
// has got is on the disk, since the next fetch is what tells the leader so; the others shall not
// wait for that.
type fetcher struct {
	set    *Set
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{} // holds one: the partitions have changed
	synced chan struct{} // holds one: a log was synced, or stopped
	fsync  bool

	mu struct {
		sync.Mutex
		leader     metadata.Broker
		self       metadata.InSync
		partitions map[PartitionID]*pulling
		order      []*pulling         // the same, in the order in which they take turns
		version    int                // counts the changes of partitions
		settled    []*pulling         // that a worker of settleLater is done with
		peer       Peer               // of the fetch under way; nil: none is
		interrupt  context.CancelFunc // of the fetch under way
	}
	turn    int                 // counts the fetches; it also says which partition is first
	asking  []FollowerPartition // the last request's, to be used again
	failing time.Time           // since when the leader has not answered; zero: it did last
	warned  bool                // the log says so

	connected metadata.Broker // that the connection is to, or was
	saying    saying
	changed   []*pulling // of which the next fetch may have something to say; each once
	swept     time.Time  // when all partitions were looked at last
	version   int        // of mu.partitions, when they were
	slow      settling   // what waits for the disk
}

// pulling is one partition of a fetcher. partition does not change, and mu guards role; the rest is
// the fetcher goroutine's, and of one worker at a time: of takeAll while that runs, of settleLater
// while busy is set.
type pulling struct {
	partition *partition
	role      *role
	failures  int
	retryAt   time.Time
	askedAs   *role // the role in which the leader was asked last
	taken     int   // the turn in which it was answered last
	queued    bool  // it is in changed
	busy      bool  // a worker of settleLater has it, and it is not asked for
}

// fetcherKey names a fetcher.
type fetcherKey struct {
	leader int32
	fsync  bool
}

func (s *Set) startFetcher(key fetcherKey) *fetcher {
	ctx, cancel := context.WithCancel(context.Background())
	f := &fetcher{
		set: s, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1),
		synced: make(chan struct{}, 1), fsync: key.fsync,
	}
	f.mu.partitions = map[PartitionID]*pulling{}
	f.slow.slots = make(chan struct{}, takeWorkers)
	go func() {
		defer close(f.done)
		f.run(ctx)
		f.slow.workers.Wait()
	}()
	return f
}

// stop ends the goroutine and joins it.
func (f *fetcher) stop() {
	f.cancel()
	<-f.done
}

// assign tells what there is to copy, and from whom. A partition that is new, or has a new leader
// epoch, is not left waiting for the end of a fetch that does not have it: the leader is told to
// answer. One that is another by now is waited for no more.
func (f *fetcher) assign(leader metadata.Broker, self metadata.InSync,
	wanted map[PartitionID]*pulling) {
	if f.replace(leader, self, wanted) {
		f.hurry()
	}
}

// replace is assign, but for telling the leader; it tells whether there is news.
func (f *fetcher) replace(leader metadata.Broker, self metadata.InSync,
	wanted map[PartitionID]*pulling) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	other := f.mu.leader != leader || f.mu.self != self
	news = other
	for id, w := range wanted {
		if old := f.mu.partitions[id]; old != nil && old.partition == w.partition &&
			old.role.epoch == w.role.epoch {
			old.role = w.role
			wanted[id] = old
		} else {
			news = true
		}
	}
	f.mu.leader, f.mu.self, f.mu.partitions = leader, self, wanted
	f.mu.version++
	f.mu.order = slices.SortedFunc(maps.Values(wanted),
		func(a, b *pulling) int { return comparePartitions(a.partition.id, b.partition.id) })
	if other && f.mu.interrupt != nil {
		f.mu.interrupt()
	}
	return news
}

// hurry has the next fetch made soon. The call is made without the lock: it may meet a fetch that
// came later, which then waits for nothing.
func (f *fetcher) hurry() {
	f.mu.Lock()
	peer := f.mu.peer
	f.mu.Unlock()
	signal(f.wake)
	if peer != nil {
		peer.Interrupt()
	}
}

// signal leaves a token in a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run fetches until ctx ends. It owns the connection.
func (f *fetcher) run(ctx context.Context) {
	var peer Peer
	var worked metadata.Broker // that answered last, in the incarnation that this names
	defer func() {
		if peer != nil {
			_ = peer.Close()
		}
	}()
	for failures := 0; ctx.Err() == nil; {
		request, all, leader, retry := f.request(time.Now())
		if len(request.Partitions) == 0 && len(f.saying.said) == 0 {
			f.saying.failed()
			f.pause(ctx, retry)
			continue
		}
		if peer != nil && f.connected != leader {
			_ = peer.Close()
			peer = nil
		}
		err := error(nil)
		if peer == nil {
			peer, err = f.dial(ctx, leader)
			f.connected = leader
		}
		if err == nil {
			err = f.pull(ctx, peer, request, all)
		}
		if err == nil {
			failures, worked = 0, leader
			continue
		}
		f.saying.failed()
		if !request.isNew() &&
			(errors.Is(err, ErrSessionNotFound) || errors.Is(err, ErrSessionEpoch)) {
			continue
		}
		if peer != nil {
			_ = peer.Close()
			peer = nil
		}
		if errors.Is(err, errInterrupted) || ctx.Err() != nil {
			continue
		}
		f.noteFailure(leader, err, time.Now())
		if worked == leader && errors.Is(err, syscall.ECONNREFUSED) {
			// once: should it live all the same, the next of its fetches says so
			worked = metadata.Broker{}
			f.set.processEnded(metadata.InSync{Broker: leader.ID, Epoch: leader.Epoch})
		}
		f.pause(ctx, backoff(failures))
		failures++
	}
}

// errInterrupted ends a fetch because there is more to ask for.
var errInterrupted = errors.New("interrupted")

// backoff is how long to wait after so many failures in a row before.
func backoff(failures int) time.Duration {
	return min(retryFirst<<min(failures, 16), retryLast)
}

func (f *fetcher) dial(ctx context.Context, leader metadata.Broker) (Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	peer, err := f.set.dial(ctx, leader)
	if err != nil {
		return nil, fmt.Errorf("connect to broker %d: %w", leader.ID, err)
	}
	return peer, nil
}

// noteFailure notes that the leader cannot be reached, and warns of it, once, when that lasts.
func (f *fetcher) noteFailure(leader metadata.Broker, err error, now time.Time) {
	if f.failing.IsZero() {
		f.failing = now
	}
	if lasts := now.Sub(f.failing); !f.warned && lasts >= warnAfter {
		f.warned = true
		f.set.logger.Warn("cannot fetch from a leader", "leader", leader.ID, "for", lasts, "error",
			err)
	}
}

// noteAnswer notes that the leader can be reached.
func (f *fetcher) noteAnswer() {
	if f.warned {
		f.set.logger.Info("fetches from a leader again", "leader", f.leader())
	}
	f.failing, f.warned = time.Time{}, false
}

// pause waits for news, for d (0: for ever), or for the end of ctx.
func (f *fetcher) pause(ctx context.Context, d time.Duration) {
	var due <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-f.wake:
	case <-due:
	case <-ctx.Done():
	}
}
