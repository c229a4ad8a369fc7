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

	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

const (
	// pullBytesMax bounds one answer, pullPartitionBytesMax what it has of one partition (replica.fetch.response.max.bytes and
	// replica.fetch.max.bytes): large enough that catching up is sequential I/O, small enough that no partition waits long.
	pullBytesMax          = 10 << 20
	pullPartitionBytesMax = 1 << 20
	// pullWait is how long a fetch without news stays at the leader.
	pullWait = 500 * time.Millisecond
	// pullTimeout bounds a fetch beyond its wait: a leader that says nothing for so long is not there.
	pullTimeout = 10 * time.Second
	// A partition or a leader that failed is asked again after retryFirst, twice as long after each further failure, up to retryLast.
	retryFirst = 50 * time.Millisecond
	retryLast  = time.Second
	// warnAfter is for how long a leader has not answered when that is worth a warning. One that stops or starts again is no news, and an
	// image soon says who leads instead.
	warnAfter = 5 * time.Second
)

// fetcher copies the partitions that one broker leads: one goroutine, one connection, one fetch at a time for all of them.
//
// Partitions under durability Fsync have a fetcher of their own: it asks for more only once what it has got is on the disk, since the
// next fetch is what tells the leader so; the others shall not wait for that.
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
		interrupt  context.CancelFunc // of the fetch under way
	}
	turn    int             // counts the fetches; it also says which partition is first
	asking  []PullPartition // the last request's, to be used again
	failing time.Time       // since when the leader has not answered; zero: it did last
	warned  bool            // the log says so
}

// pulling is one partition of a fetcher. What is beside partition and role is the fetcher goroutine's, and of one worker of takeAll while
// that runs.
type pulling struct {
	partition *partition
	role      *role
	failures  int
	retryAt   time.Time
	asked     asked
}

// asked is what the last fetch that had a partition asked of it. It is kept with the partition, since a fetch asks for all of them: a broker
// that follows a thousand would make a thousand of them for each record.
type asked struct {
	turn  int // of which fetch
	role  *role
	at    PullPartition
	taken bool // the answer has it
}

// fetcherKey names a fetcher.
type fetcherKey struct {
	leader int32
	fsync  bool
}

func (s *Set) startFetcher(key fetcherKey) *fetcher {
	ctx, cancel := context.WithCancel(context.Background())
	f := &fetcher{
		set: s, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1), synced: make(chan struct{}, 1), fsync: key.fsync,
	}
	f.mu.partitions = map[PartitionID]*pulling{}
	go func() {
		defer close(f.done)
		f.run(ctx)
	}()
	return f
}

// stop ends the goroutine and joins it.
func (f *fetcher) stop() {
	f.cancel()
	<-f.done
}

// assign tells what there is to copy, and from whom. A partition that is new, or has a new leader epoch, is not left waiting for the
// end of a fetch that does not have it.
func (f *fetcher) assign(leader metadata.Broker, self metadata.InSync, wanted map[PartitionID]*pulling) {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := f.mu.leader != leader || f.mu.self != self
	for id, w := range wanted {
		if old := f.mu.partitions[id]; old != nil && old.partition == w.partition && old.role.epoch == w.role.epoch {
			old.role = w.role
			wanted[id] = old
		} else {
			news = true
		}
	}
	f.mu.leader, f.mu.self, f.mu.partitions = leader, self, wanted
	f.mu.order = slices.SortedFunc(maps.Values(wanted), func(a, b *pulling) int { return comparePartitions(a.partition.id, b.partition.id) })
	if !news {
		return
	}
	if f.mu.interrupt != nil {
		f.mu.interrupt()
	}
	signal(f.wake)
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
	var connected, worked metadata.Broker // that the connection is to; that answered last, in the incarnation that this names
	defer func() {
		if peer != nil {
			_ = peer.Close()
		}
	}()
	for failures := 0; ctx.Err() == nil; {
		request, all, leader, retry := f.request(time.Now())
		if len(request.Partitions) == 0 {
			f.pause(ctx, retry)
			continue
		}
		if peer != nil && connected != leader {
			_ = peer.Close()
			peer = nil
		}
		err := error(nil)
		if peer == nil {
			peer, err = f.dial(ctx, leader)
			connected = leader
		}
		if err == nil {
			err = f.pull(ctx, peer, request, all)
		}
		if err == nil {
			failures, worked = 0, leader
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
			worked = metadata.Broker{} // once: should it live all the same, the next of its fetches says so
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
		f.set.logger.Warn("cannot fetch from a leader", "leader", leader.ID, "for", lasts, "error", err)
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

// request makes the next fetch, of all partitions but those that failed a moment ago; retry is when the first of these is due, if
// there is nothing else. The order turns: an answer has whole batches of the first partition, however large, and of the others what
// fits beside them. all are the fetcher's partitions, of which those are asked for whose asked has this turn.
func (f *fetcher) request(now time.Time) (request *Pull, all map[PartitionID]*pulling, leader metadata.Broker, retry time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	request = &Pull{Replica: f.mu.self, Wait: pullWait, BytesMax: pullBytesMax, Partitions: f.asking[:0]}
	f.turn++
	for n := range f.mu.order {
		w := f.mu.order[(f.turn+n)%len(f.mu.order)]
		if wait := w.retryAt.Sub(now); wait > 0 {
			if retry == 0 || wait < retry {
				retry = wait
			}
			request.Wait = min(request.Wait, wait)
			continue
		}
		at, err := w.partition.pulls(w.role, pullPartitionBytesMax)
		if err != nil {
			f.fail(w, err, now)
			retry = min(retryLast, max(retry, retryFirst))
			continue
		}
		request.Partitions = append(request.Partitions, at)
		w.asked = asked{turn: f.turn, role: w.role, at: at}
	}
	f.asking = request.Partitions
	return request, f.mu.partitions, f.mu.leader, retry // assign replaces the map, and changes none that was shown
}

// pull makes one fetch and does what its answer says.
func (f *fetcher) pull(ctx context.Context, peer Peer, request *Pull, all map[PartitionID]*pulling) error {
	fetching, cancel := context.WithTimeout(ctx, request.Wait+pullTimeout)
	defer cancel()
	if !f.interruptible(cancel) {
		return nil // there is news already
	}
	results, err := peer.Pull(fetching, request)
	f.mu.Lock()
	f.mu.interrupt = nil
	f.mu.Unlock()
	if err != nil {
		if errors.Is(fetching.Err(), context.Canceled) && ctx.Err() == nil {
			return errInterrupted
		}
		return err
	}
	f.noteAnswer()
	f.takeAll(all, results, time.Now())
	if f.fsync {
		f.awaitSync(ctx, all)
	}
	return nil
}

// takeAll does what the leader answered, for many partitions at once. Most answers are a write to the page cache; but the first batch of
// a leader epoch waits for the disk, twice, and after a failover hundreds of partitions have one, while producers of all the others wait
// for the next fetch.
func (f *fetcher) takeAll(all map[PartitionID]*pulling, results []Pulled, now time.Time) {
	var workers errgroup.Group
	workers.SetLimit(takeWorkers)
	for i := range results {
		w := all[results[i].ID]
		if w == nil || w.asked.turn != f.turn || w.asked.taken {
			continue // not asked for, or named twice: a pulling is one goroutine's
		}
		w.asked.taken = true
		if len(results) == 1 {
			f.take(w, &results[i], now)
			continue
		}
		workers.Go(func() error {
			f.take(w, &results[i], now)
			return nil
		})
	}
	_ = workers.Wait() // each failure is the partition's own
}

func (f *fetcher) leader() int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.leader.ID
}

// interruptible lets assign end the fetch that begins now; false if it has something new already.
func (f *fetcher) interruptible(cancel context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.wake:
		return false
	default:
	}
	f.mu.interrupt = cancel
	return true
}

// take does what the leader answered for one partition.
func (f *fetcher) take(w *pulling, got *Pulled, now time.Time) {
	p := w.partition
	moved, err := p.follow(w.asked.role, &w.asked.at, got, now)
	if moved {
		f.set.fetches.Notify(p.id)
	}
	if err != nil {
		f.fail(w, err, now)
		return
	}
	w.failures = 0
	p.stuck.Store(nil)
}

// fail has a partition wait before it is asked for again. A leader that does not know that it is, or knows more than we do, is the
// everyday life of a failover; anything else is told.
func (f *fetcher) fail(w *pulling, err error, now time.Time) {
	w.retryAt = now.Add(backoff(w.failures))
	w.failures++
	if transient(err) {
		return
	}
	p := w.partition
	if told := p.stuck.Load(); told == nil || (*told).Error() != err.Error() {
		f.set.logger.Warn("cannot follow the leader", "partition", p.id, "error", err)
	}
	p.stuck.Store(&err)
}

func transient(err error) bool {
	for _, known := range []error{ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch, ErrUnknownPartition, ErrOtherTopic, ErrStaleReplica, logstore.ErrClosed} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// awaitSync waits until what was appended is on the disk, or will not get there.
func (f *fetcher) awaitSync(ctx context.Context, all map[PartitionID]*pulling) {
	for _, w := range all {
		if w.asked.turn != f.turn {
			continue
		}
		log := w.partition.log
		for log.SafeEnd() < log.LogEnd() && log.Fault() == nil {
			select {
			case <-f.synced:
			case <-f.wake: // a role may have changed, and the log be closed
				signal(f.wake)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}
