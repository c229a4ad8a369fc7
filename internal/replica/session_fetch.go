package replica

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/session"
)

// sessionScanInterval is the time between two scans of a session for changes that cause no event. A
// follower fetches at this interval while there is nothing to report.
const sessionScanInterval = followerFetchWait

// fetch performs one fetch of a session. The caller holds the session's fetchLock.
func (s *sessions) fetch(ctx context.Context, in *fetchSession, req *FetchRequest,
	now time.Time) (FetchResponse, error) {
	in.lastFetch.pointer.Store(&now)
	s.update(in, req)
	if !s.cache.use(in, len(in.partitions), now) {
		s.close(in)
		// The cache has no room, not even for a new session of that size, so the client continues without
		// a session.
		return FetchResponse{}, session.ErrNotFound
	}
	if all := in.markAllNext.Swap(false); all || in.readCommitted != req.ReadCommitted {
		in.markAll()
	}
	in.readCommitted = req.ReadCommitted
	s.scan(in, now)
	read := s.readDirty(in, req)
	if !read.enough && req.Wait > 0 {
		releaseResults(read.results)
		s.await(ctx, in, req)
		if in.isClosed() {
			return in.closedResponse()
		}
		s.scan(in, time.Now())
		read = s.readDirty(in, req)
	}
	read.storeSent()
	return FetchResponse{in.id, read.results}, nil
}

// closedResponse returns the response to a fetch whose session was closed while the fetch waited. A
// follower receives an empty response without a session, and then starts a new session. The closed
// session's partitions are not read again, because their requests may be older than the requests in
// a newer session of this follower. A consumer receives an error, because it may have to receive
// all its partitions again.
func (s *fetchSession) closedResponse() (FetchResponse, error) {
	if s.follower != nil {
		return FetchResponse{}, nil
	}
	return FetchResponse{}, session.ErrNotFound
}

func releaseResults(results []FetchResult) {
	for i := range results {
		if results[i].Data != nil {
			results[i].Data.Release()
		}
	}
}

// update updates the session's partitions from a fetch. Like Kafka, it first adds the partitions
// that the fetch names, and then removes the partitions that the fetch forgets.
func (s *sessions) update(in *fetchSession, req *FetchRequest) {
	for i := range req.Partitions {
		want := &req.Partitions[i]
		key := session.KeyOf(want.Topic, want.ID.Topic, want.ID.Index)
		p := in.partitions[key]
		if p == nil {
			p = &sessionPartition{session: in, key: key, sent: sentOffsets{-1, -1}}
			in.partitions[key] = p
		}
		id := p.request.ID
		if p.request = *want; p.watched {
			p.request.ID = id
		}
		s.watchPartition(p)
		in.markEach(p)
	}
	for _, key := range req.Forgotten {
		if p := in.partitions[key]; p != nil {
			s.removePartition(p)
		}
	}
}

// watchPartition adds a partition to sessionWatch once the topic's name is known. Events use that
// name to find the partition there.
func (s *sessions) watchPartition(p *sessionPartition) {
	if p.watched {
		return
	}
	if p.request.ID.Topic == "" {
		topic := s.set.view.Load().image.TopicByID(p.request.Topic)
		if topic == nil {
			return // the partition remains dirty, because its result is an error
		}
		p.request.ID.Topic = topic.Name
	}
	s.watch.add(p)
}

// sessionRead is the result of reading the dirty partitions of a session.
type sessionRead struct {
	results    []FetchResult
	partitions []*sessionPartition // partitions that were read; partitions[i] belongs to results[i]
	enough     bool                // true if the response must not wait; see Set.read
}

// readDirty reads the dirty partitions, within the request's byte limits. A partition with
// something to report remains dirty until a read finds nothing to report, because the response may
// be lost, or may not be processed.
func (s *sessions) readDirty(in *fetchSession, req *FetchRequest) (all sessionRead) {
	total, most := 0, req.bytesMax()
	var remaining []*sessionPartition
	for _, p := range in.byUrgency(in.takeDirty()) {
		s.watchPartition(p)
		want := p.request
		want.BytesMax = min(want.BytesMax, max(most-total, 0))
		var result FetchResult
		result, p.state = s.set.readOne(req, want, &in.lastFetch, total == 0 && most > 0)
		// The state keeps the original request, because want.BytesMax was reduced by the bytes of other
		// partitions.
		p.state.request = p.request
		state := &p.state
		failed, reported := state.partition == nil,
			p.mustRespond(&result, req.Session.Epoch == session.New)
		all.enough = all.enough || failed || state.more ||
			result.OffsetsChanged && state.role.pushHighWatermark
		total += state.bytes
		if failed || reported || state.more || state.throttled {
			remaining = append(remaining, p)
		}
		if reported {
			all.results, all.partitions = append(all.results, result), append(all.partitions, p)
		} else if result.Data != nil {
			result.Data.Release()
		}
	}
	in.markEach(remaining...)
	all.enough = all.enough || total >= min(req.BytesMin, req.BytesMax)
	return all
}

// byUrgency sorts a follower's partitions. Partitions that reject acks=all until a follower has
// caught up come first, so that they need not wait for partitions with many records.
func (s *fetchSession) byUrgency(dirty []*sessionPartition) []*sessionPartition {
	if s.follower == nil || len(dirty) < 2 {
		return dirty
	}
	ordered := make([]*sessionPartition, 0, len(dirty))
	var others []*sessionPartition
	for _, p := range dirty {
		if p.underMinISR() {
			ordered = append(ordered, p)
		} else {
			others = append(others, p)
		}
	}
	return append(ordered, others...)
}

// underMinISR reports whether, at the last read, the ISR was smaller than min.insync.replicas.
func (p *sessionPartition) underMinISR() bool {
	r := p.state.role
	return r != nil && r.leaderState != nil && r.leaderState.isrSize() < r.minISR
}

// mustRespond reports whether the response must contain the result. first is set for a session's
// first fetch.
func (p *sessionPartition) mustRespond(r *FetchResult, first bool) bool {
	if r.MustRespond() || p.session.follower != nil {
		return r.MustRespond()
	}
	return first || sentOffsets{r.HighWater, r.LogStart} != p.sent ||
		r.PreferredReplica != metadata.NoBroker
}

// storeSent stores the offsets that a consumer receives, and adds the bytes that it receives to the
// metric.
func (a *sessionRead) storeSent() {
	for i, p := range a.partitions {
		if p.session.follower != nil {
			return
		}
		r := &a.results[i]
		p.sent = sentOffsets{r.HighWater, r.LogStart}
		if r.Err != nil {
			p.sent = sentOffsets{-1, -1} // so that the offsets are sent again
		}
		if p.state.bytes > 0 {
			p.state.partition.fetchedBytes.Add(float64(p.state.bytes))
		}
	}
}

// scan marks partitions dirty whose offsets differ from the offsets that the client last received.
// It detects changes of the log start and the replicated cleaning progress, which cause no event,
// and any change whose event was missed. If the last scan was less than sessionScanInterval ago,
// scan does nothing.
func (s *sessions) scan(in *fetchSession, now time.Time) {
	if now.Sub(in.scanned) < sessionScanInterval {
		return
	}
	in.scanned = now
	for _, p := range in.partitions {
		if p.offsetsChanged() {
			in.markEach(p)
		}
	}
}

// offsetsChanged reports whether a read would find offsets to report.
func (p *sessionPartition) offsetsChanged() bool {
	partition, r := p.state.partition, p.state.role
	if partition == nil || partition.checkStillServes(r) != nil {
		return true
	}
	now := FetchResult{HighWater: partition.log.HighWatermark(), LogStart: partition.log.LogStart()}
	if p.session.follower == nil {
		return p.sent != sentOffsets{now.HighWater, now.LogStart}
	}
	now.setFollowerOffsets(partition, r, &p.request)
	return now.OffsetsChanged || partition.log.LogEnd() != p.request.Offset
}

// await waits until the session has enough to report, for at most req.Wait.
func (s *sessions) await(ctx context.Context, in *fetchSession, req *FetchRequest) {
	op := &delayedSessionFetch{session: in, req: req, done: make(chan struct{})}
	purgatory := s.set.consumerFetches
	if in.follower != nil {
		purgatory = s.set.followerFetches
	}
	waiting := purgatory.Wait(op, req.Wait)
	in.beginWait(waiting)
	wait(ctx, waiting, req.Interrupt, op.done)
	in.endWait()
	in.markEach(op.checked...)
	if req.Session.Epoch == session.New {
		in.markAll() // the first response contains every partition
	}
}

// delayedSessionFetch is a waiting fetch of a session. It checks only partitions that have become
// dirty since the wait began.
type delayedSessionFetch struct {
	session *fetchSession
	req     *FetchRequest
	checked []*sessionPartition // checked partitions, without duplicates
	total   int                 // number of bytes in the checked partitions
	done    chan struct{}
}

// TryComplete implements timer.Operation.
func (d *delayedSessionFetch) TryComplete() bool {
	enough := false
	for _, p := range d.session.takeDirty() {
		if p.counted.by != d {
			p.counted = countedBytes{by: d}
			d.checked = append(d.checked, p)
		}
		if p.state.partition == nil {
			enough = true
			continue
		}
		bytes, now := p.state.available(*d.req)
		d.total += bytes - p.counted.bytes
		p.counted.bytes = bytes
		enough = enough || now
	}
	if !enough && d.total < min(d.req.BytesMin, d.req.BytesMax) {
		return false
	}
	close(d.done)
	return true
}

// Expire implements timer.Operation.
func (d *delayedSessionFetch) Expire() { close(d.done) }
