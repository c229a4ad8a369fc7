package replica

import (
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// sweepEvery is how often all partitions of a fetcher are held against what the leader was told of
// them: where a log begins and how far it was cleaned changes by itself.
const sweepEvery = pullWait

// isNew tells whether a fetch names everything.
func (p *FollowerFetch) isNew() bool { return p.Session.Epoch == SessionNew }

// request makes the next fetch: of all partitions if it begins a session, else of those of which
// there is something new to say. A partition that failed a moment ago, or that waits for the disk,
// is not in the session meanwhile; retry is when the first of the former is due.
//
// The order of a whole fetch turns: an answer has whole batches of the first partition, however
// large, and of the others what fits beside them. all are the fetcher's partitions.
func (f *fetcher) request(now time.Time) (request *FollowerFetch, all map[PartitionID]*pulling,
	leader metadata.Broker, retry time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.wake: // what it tells of is asked for now
	default:
	}
	if f.connected != f.mu.leader {
		f.saying.id = SessionID{} // whatever was begun, was so elsewhere
	}
	f.turn++
	request = &FollowerFetch{Replica: f.mu.self, Wait: pullWait, BytesMax: pullBytesMax,
		Partitions: f.asking[:0]}
	f.gatherLocked(now)
	for _, w := range f.takeChanged() {
		if w.busy {
			f.unsay(w)
			continue // it comes back when it is settled
		}
		if wait := w.retryAt.Sub(now); wait > 0 {
			retry = shorter(retry, wait)
			f.unsay(w)
			f.requeue(w)
			continue
		}
		at, err := w.partition.pulls(w.role, pullPartitionBytesMax)
		if err != nil {
			f.fail(w, err, now)
			retry = shorter(retry, w.retryAt.Sub(now))
			f.unsay(w)
			f.requeue(w)
			continue
		}
		w.askedAs = w.role
		if f.saying.say(&at) {
			request.Partitions = append(request.Partitions, at)
		}
		if at.DurableEnd < at.Offset {
			f.requeue(w)
		}
	}
	if retry > 0 {
		request.Wait = min(request.Wait, retry)
	}
	f.asking, request.Session, request.Forgotten = request.Partitions, f.saying.id,
		f.saying.forgotten
	// assign replaces the map, and changes none that was shown
	return request, f.mu.partitions, f.mu.leader, retry
}

func shorter(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// gatherLocked queues what the next fetch may have something to say of.
func (f *fetcher) gatherLocked(now time.Time) {
	for _, w := range f.mu.settled {
		w.busy = false
		if f.mu.partitions[w.partition.id] == w {
			f.requeue(w)
		}
	}
	f.mu.settled = nil
	begins := f.saying.isNew()
	if begins {
		f.saying.begin()
	}
	if f.version != f.mu.version {
		f.version = f.mu.version
		f.forgetOthersLocked()
	} else if !begins && now.Sub(f.swept) < sweepEvery {
		return
	}
	f.swept = now
	for n := range f.mu.order {
		f.requeue(f.mu.order[(f.turn+n)%len(f.mu.order)])
	}
}

// forgetOthersLocked forgets the partitions that were taken away.
func (f *fetcher) forgetOthersLocked() {
	for key, at := range f.saying.said {
		if w := f.mu.partitions[at.ID]; w == nil || KeyOf(w.partition.topic, at.ID) != key {
			f.saying.forget(key)
		}
	}
	kept := f.changed[:0]
	for _, w := range f.changed {
		if f.mu.partitions[w.partition.id] == w {
			kept = append(kept, w)
		}
	}
	clear(f.changed[len(kept):])
	f.changed = kept
}

// requeue has the next fetch look whether there is anything to say of a partition.
func (f *fetcher) requeue(w *pulling) {
	if !w.queued {
		w.queued = true
		f.changed = append(f.changed, w)
	}
}

// takeChanged empties changed.
func (f *fetcher) takeChanged() []*pulling {
	taken := f.changed
	f.changed = nil
	for _, w := range taken {
		w.queued = false
	}
	return taken
}

// unsay takes a partition out of the session.
func (f *fetcher) unsay(w *pulling) { f.saying.forget(KeyOf(w.partition.topic, w.partition.id)) }
