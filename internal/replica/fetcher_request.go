package replica

import (
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/session"
)

// scanInterval is the time between two scans. In a scan, a fetcher builds the requests of all its
// partitions and compares them with the requests that it last sent. Scans detect changes of the log
// start and the tombstone-clean offset, which cause no event.
const scanInterval = followerFetchWait

// nextRequest builds the next fetch. A fetch that starts a session contains all partitions. Any
// other fetch contains only the partitions whose request has changed. A partition that failed
// recently, or that waits for the disk, is removed from the session until it can be fetched again.
// retry is the time until the first failed partition may be fetched again, or 0 if none has failed.
// all contains the fetcher's partitions.
//
// The order of the partitions in a full fetch rotates, because a response favours its first
// partition: it contains at least one whole batch of this partition, however large, but contains
// batches of other partitions only if they fit.
func (f *fetcher) nextRequest(now time.Time) (request *FollowerFetch,
	all map[PartitionID]*followedPartition, leader metadata.Broker, retry time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.wake: // this request already contains the change
	default:
	}
	if f.connected != f.mu.leader {
		f.session.Abandon()
	}
	f.fetches++
	request = &FollowerFetch{Replica: f.mu.self, Wait: followerFetchWait,
		BytesMax: followerBytesMax, Partitions: f.request[:0]}
	f.collectDirtyLocked(now)
	for _, fp := range f.takeDirty() {
		if fp.busy {
			f.removeFromSession(fp)
			continue // the partition is marked dirty again when its worker has ended
		}
		if wait := fp.retryAt.Sub(now); wait > 0 {
			retry = shorter(retry, wait)
			f.removeFromSession(fp)
			f.markDirty(fp)
			continue
		}
		p, err := fp.partition.followerRequest(fp.role, followerPartitionBytesMax)
		if err != nil {
			f.fail(fp, err, now)
			retry = shorter(retry, fp.retryAt.Sub(now))
			f.removeFromSession(fp)
			f.markDirty(fp)
			continue
		}
		fp.sentRole = fp.role
		if f.session.Update(fp.key(), p) {
			request.Partitions = append(request.Partitions, p)
		}
		if p.DurableEnd < p.Offset {
			f.markDirty(fp)
		}
	}
	if retry > 0 {
		request.Wait = min(request.Wait, retry)
	}
	f.request, request.Session, request.Forgotten = request.Partitions, f.session.ID(),
		f.session.Forgotten()
	// The caller can use the map without the lock, because setPartitions replaces the map and does not
	// modify it.
	return request, f.mu.partitions, f.mu.leader, retry
}

// shorter returns the shorter of two durations. If a is 0, it returns b.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// collectDirtyLocked marks the partitions dirty whose request may have changed.
func (f *fetcher) collectDirtyLocked(now time.Time) {
	for _, fp := range f.mu.applied {
		fp.busy = false
		if f.mu.partitions[fp.partition.id] == fp {
			f.markDirty(fp)
		}
	}
	for _, fp := range f.mu.stopped {
		if f.mu.partitions[fp.partition.id] == fp {
			f.markDirty(fp)
		}
	}
	f.mu.applied, f.mu.stopped = nil, nil
	full := f.session.Full()
	if full {
		f.session.Reset()
	}
	if f.version != f.mu.version {
		f.version = f.mu.version
		f.removeOthersLocked()
	} else if !full && now.Sub(f.scanned) < scanInterval {
		return
	}
	f.scanned = now
	for n := range f.mu.order {
		f.markDirty(f.mu.order[(f.fetches+n)%len(f.mu.order)])
	}
}

// removeOthersLocked removes from the session the partitions that this fetcher no longer copies.
func (f *fetcher) removeOthersLocked() {
	for key, p := range f.session.All() {
		if fp := f.mu.partitions[p.ID]; fp == nil || fp.key() != key {
			f.session.Remove(key)
		}
	}
	kept := f.dirty[:0]
	for _, fp := range f.dirty {
		if f.mu.partitions[fp.partition.id] == fp {
			kept = append(kept, fp)
		}
	}
	clear(f.dirty[len(kept):])
	f.dirty = kept
}

// markDirty makes the next fetch check whether the partition's request has changed.
func (f *fetcher) markDirty(fp *followedPartition) {
	if !fp.dirty {
		fp.dirty = true
		f.dirty = append(f.dirty, fp)
	}
}

func (f *fetcher) takeDirty() []*followedPartition {
	taken := f.dirty
	f.dirty = nil
	for _, fp := range taken {
		fp.dirty = false
	}
	return taken
}

func (f *fetcher) removeFromSession(fp *followedPartition) { f.session.Remove(fp.key()) }

func (fp *followedPartition) key() session.Key {
	return session.KeyOf(fp.partition.topic, fp.partition.id.Topic, fp.partition.id.Index)
}
