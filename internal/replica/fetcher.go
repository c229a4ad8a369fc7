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
	"heartwood.dev/heartwood/internal/replica/session"
)

const (
	// followerBytesMax limits a whole response, and followerPartitionBytesMax limits one partition in
	// a response, like Kafka's replica.fetch.response.max.bytes and replica.fetch.max.bytes. The
	// limits are large enough for sequential I/O while a follower catches up, and small enough that no
	// partition waits long for the others.
	followerBytesMax          = 10 << 20
	followerPartitionBytesMax = 1 << 20
	// followerFetchWait is how long a fetch waits at the leader while the leader has nothing to
	// return.
	followerFetchWait = 500 * time.Millisecond
	// followerFetchTimeout is how much longer than followerFetchWait a follower waits for a response.
	followerFetchTimeout = 10 * time.Second
	// After a failure of a partition or of a leader, the follower retries after retryFirst. The delay
	// doubles with each further failure, up to retryLast.
	retryFirst = 50 * time.Millisecond
	retryLast  = time.Second
	// warnAfter is how long a leader must be unreachable before a warning is logged. A restart takes
	// less time, and after a failure a new image soon names another leader.
	warnAfter = 5 * time.Second
)

// fetcher copies the partitions that one broker leads. It uses one goroutine and one connection for
// all these partitions, and has at most one fetch in progress.
//
// Partitions under durability Fsync have a separate fetcher. It sends a fetch only after the
// records of the previous fetch have been synced, because the fetch acknowledges these records to
// the leader. If they shared a fetcher with other partitions, those would wait for the sync too.
type fetcher struct {
	set    *Set
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{} // token after the partitions have changed; capacity 1
	synced chan struct{} // token after a log has been synced or has failed; capacity 1
	fsync  bool

	mu struct {
		sync.Mutex
		leader metadata.Broker
		self   metadata.InSync
		// partitions contains the copied partitions by id. The map is replaced, and never modified.
		partitions map[PartitionID]*followedPartition
		order      []*followedPartition // values of partitions, sorted
		version    int                  // counter that is incremented when partitions is replaced
		// applied contains the partitions whose applyLater worker has ended.
		applied []*followedPartition
		// stopped contains the partitions whose log has stopped since the last request.
		stopped []*followedPartition
		// peer is the connection of the fetch in progress; nil if no fetch is in progress.
		peer      Peer
		interrupt context.CancelFunc // cancel function of the fetch in progress
	}

	// Only the fetcher's goroutine uses the other fields.

	fetches int                 // number of fetches, by which the order of a full fetch rotates
	request []FollowerPartition // slice of the last request, for reuse
	// failingSince is the time of the first failure after the leader last answered; zero if there was
	// no failure.
	failingSince time.Time
	warned       bool // true if a warning was logged that the leader does not answer

	connected metadata.Broker // broker of the current or the last connection
	session   session.Follower[FollowerPartition]
	// dirty contains the partitions whose request may have changed, without duplicates.
	dirty       []*followedPartition
	scanned     time.Time // time at which all partitions were last marked dirty
	version     int       // value of mu.version when scanned was set
	diskWorkers diskWorkers
}

// followedPartition is a partition of a fetcher. The field partition does not change, and mu guards
// role. The other fields belong to the fetcher's goroutine, or to one of its workers: a worker of
// applyAll while applyAll runs, or the worker of applyLater while busy is set.
type followedPartition struct {
	partition *partition
	role      *role
	failures  int
	retryAt   time.Time
	sentRole  *role // role in which the last request was sent
	answered  int   // number of the last fetch that contained a result for the partition
	dirty     bool  // true if fetcher.dirty contains the partition
	busy      bool  // true while a worker of applyLater uses the partition, which is then not fetched
}

// fetcherKey identifies a fetcher.
type fetcherKey struct {
	leader int32
	fsync  bool
}

func startFetcher(s *Set, key fetcherKey) *fetcher {
	ctx, cancel := context.WithCancel(context.Background())
	f := &fetcher{
		set: s, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1),
		synced: make(chan struct{}, 1), fsync: key.fsync,
	}
	f.mu.partitions = map[PartitionID]*followedPartition{}
	f.diskWorkers.slots = make(chan struct{}, applyConcurrency)
	go func() {
		defer close(f.done)
		f.run(ctx)
		f.diskWorkers.running.Wait()
	}()
	return f
}

// stop ends the goroutine, and returns when it has ended.
func (f *fetcher) stop() {
	f.cancel()
	<-f.done
}

// setPartitions sets the leader and the partitions to copy. If partitions are new or have a new
// leader epoch, the fetch in progress does not contain them, so setPartitions asks the leader to
// answer that fetch at once. If the leader is now another broker process, setPartitions cancels the
// fetch.
func (f *fetcher) setPartitions(leader metadata.Broker, self metadata.InSync,
	partitions map[PartitionID]*followedPartition) {
	if f.replacePartitions(leader, self, partitions) {
		f.fetchSoon()
	}
}

// replacePartitions replaces the leader and the partitions, and reports whether anything changed.
// It cancels the fetch in progress if the leader is now another broker process.
func (f *fetcher) replacePartitions(leader metadata.Broker, self metadata.InSync,
	partitions map[PartitionID]*followedPartition) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	otherProcess := f.mu.leader != leader || f.mu.self != self
	changed = otherProcess
	roleChanged := len(partitions) != len(f.mu.partitions)
	for id, fp := range partitions {
		if old := f.mu.partitions[id]; old != nil && old.partition == fp.partition &&
			old.role.epoch == fp.role.epoch {
			roleChanged = roleChanged || old.role != fp.role
			old.role = fp.role
			partitions[id] = old
		} else {
			changed = true
		}
	}
	if !changed && !roleChanged {
		return false
	}
	f.mu.leader, f.mu.self, f.mu.partitions = leader, self, partitions
	f.mu.version++
	f.mu.order = slices.SortedFunc(maps.Values(partitions),
		func(a, b *followedPartition) int {
			return comparePartitions(a.partition.id,
				b.partition.id)
		})
	if otherProcess && f.mu.interrupt != nil {
		f.mu.interrupt()
	}
	return changed
}

// fetchSoon ends the wait of the fetch in progress. It calls Interrupt without holding mu, so it
// may interrupt the next fetch instead. That fetch then returns without a wait.
func (f *fetcher) fetchSoon() {
	f.mu.Lock()
	peer := f.mu.peer
	f.mu.Unlock()
	signal(f.wake)
	if peer != nil {
		peer.Interrupt()
	}
}

// logStopped is called when a partition's log has stopped. It makes the fetcher send its next
// request at once, and check the partition for that request.
func (f *fetcher) logStopped(id PartitionID) {
	f.mu.Lock()
	fp := f.mu.partitions[id]
	if fp != nil {
		f.mu.stopped = append(f.mu.stopped, fp)
	}
	f.mu.Unlock()
	if fp != nil {
		f.fetchSoon()
	}
}

// signal puts a token into a channel of capacity 1, unless the channel already contains one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run fetches until ctx ends. It owns the connection.
func (f *fetcher) run(ctx context.Context) {
	var peer Peer
	var lastAnswered metadata.Broker // the broker that last answered, with its broker epoch
	defer func() {
		if peer != nil {
			_ = peer.Close()
		}
	}()
	for failures := 0; ctx.Err() == nil; {
		request, all, leader, retry := f.nextRequest(time.Now())
		if len(request.Partitions) == 0 && f.session.Len() == 0 {
			f.session.Failed()
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
			err = f.fetch(ctx, peer, request, all)
		}
		if err == nil {
			failures, lastAnswered = 0, leader
			continue
		}
		f.session.Failed()
		if request.Session.Epoch != session.New &&
			(errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrEpoch)) {
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
		if lastAnswered == leader && errors.Is(err, syscall.ECONNREFUSED) {
			// Report an exit only once. If the process is in fact alive, its next fetch shows that.
			lastAnswered = metadata.Broker{}
			f.set.processExited(metadata.InSync{Broker: leader.ID, Epoch: leader.Epoch})
		}
		f.pause(ctx, backoff(failures))
		failures++
	}
}

// errInterrupted ends a fetch because the leader has changed.
var errInterrupted = errors.New("interrupted")

// backoff returns the delay after the given number of consecutive failures.
func backoff(failures int) time.Duration {
	return min(retryFirst<<min(failures, 16), retryLast)
}

func (f *fetcher) dial(ctx context.Context, leader metadata.Broker) (Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, followerFetchTimeout)
	defer cancel()
	peer, err := f.set.fetchers.dial(ctx, leader)
	if err != nil {
		return nil, fmt.Errorf("connect to broker %d: %w", leader.ID, err)
	}
	return peer, nil
}

// noteFailure records that the leader is unreachable, and since when. It logs one warning if the
// leader stays unreachable for warnAfter.
func (f *fetcher) noteFailure(leader metadata.Broker, err error, now time.Time) {
	if f.failingSince.IsZero() {
		f.failingSince = now
	}
	if duration := now.Sub(f.failingSince); !f.warned && duration >= warnAfter {
		f.warned = true
		f.set.logger.Warn("failed to fetch from leader", "leader", leader.ID,
			"duration", duration, "error", err)
	}
}

// noteAnswer records that the leader is reachable.
func (f *fetcher) noteAnswer() {
	if f.warned {
		f.set.logger.Info("fetching from leader resumed", "leader", f.leader())
	}
	f.failingSince, f.warned = time.Time{}, false
}

// pause returns when wake contains a token, when d has elapsed, or when ctx ends. If d is 0, there
// is no time limit.
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
