package replica

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// Why a fetch is not taken as part of its session. Its asker begins a new one.
var (
	ErrSessionNotFound = errors.New("fetch session not found")
	ErrSessionEpoch    = errors.New("not the next fetch of its session")
	ErrSessionNames    = errors.New(
		"topics are named by ids in some fetches of the session and not in others",
	)
)

// glanceEvery is how often all partitions of a session are looked after for what comes without an
// event: as often as a follower asks when there is nothing.
const glanceEvery = pullWait

// FetchResponse is the answer to a fetch that may be part of a session.
type FetchResponse struct {
	Session int32 // 0: of none
	// Results are of all partitions that were asked for; in a session, but for its first fetch by a
	// consumer, of those that have news.
	Results []FetchResult
}

// FetchInSession is Fetch, for a request that may begin, continue or end a session (KIP-227). One
// that continues a session names only what is new, and what it wants no more. It fails with
// ErrSessionNotFound, ErrSessionEpoch or ErrSessionNames, and has then done nothing. A follower is
// told of partitions with news only, whether there is a session or not.
func (s *Set) FetchInSession(ctx context.Context, req FetchRequest) (FetchResponse, error) {
	now := time.Now()
	if whole := req.Session.Epoch == SessionNew || req.Session.Epoch == SessionNone; whole &&
		req.Session.ID != 0 {
		s.endSession(s.sessions.table.find(req.Session.ID))
	}
	var in *session
	switch req.Session.Epoch {
	case SessionNone:
	case SessionNew:
		var evicted []*session
		in, evicted = s.sessions.table.open(req.Replica, len(req.Partitions), now)
		for _, out := range append(evicted, s.sessions.table.takeBefore(req.Replica)...) {
			s.ended(out)
		}
		if in != nil {
			in.topicIDs = req.TopicIDs
		}
	default:
		if in = s.sessions.table.find(req.Session.ID); in == nil || !in.isOf(req.Replica) {
			return FetchResponse{}, ErrSessionNotFound
		}
		if in.topicIDs != req.TopicIDs {
			return FetchResponse{}, ErrSessionNames
		}
	}
	if in == nil {
		return FetchResponse{Results: s.Fetch(ctx, req)}, nil
	}
	if err := in.begin(ctx, req.Session); err != nil {
		if in.isOver() {
			s.clear(in)
		}
		return FetchResponse{}, err
	}
	defer s.pause(in)
	return s.fetchIn(ctx, in, &req, now)
}

// isOf tells whether a session is of who asks now.
func (s *session) isOf(follower *metadata.InSync) bool {
	if s.follower == nil || follower == nil {
		return s.follower == nil && follower == nil
	}
	return *s.follower == *follower
}

// pause is the end of a fetch.
func (s *Set) pause(in *session) {
	in.turn <- struct{}{}
	if in.isOver() {
		s.clear(in)
	}
}

// endSession ends a session, if there is one.
func (s *Set) endSession(in *session) {
	if in != nil && s.sessions.table.remove(in) {
		s.ended(in)
	}
}

// ended is called once for each session that is not in the table any more.
func (s *Set) ended(in *session) {
	close(in.over)
	in.hurry()
	s.clear(in)
}

// clear has no event find a session any more, unless one of its fetches is under way; that does it
// at its end. The turn is kept.
func (s *Set) clear(in *session) {
	select {
	case <-in.turn:
		for _, e := range in.entries {
			s.leave(e)
		}
	default:
	}
}

// leave takes a partition out of its session.
func (s *Set) leave(e *sessionEntry) {
	if p, of := s.view.Load().partitions[e.want.ID], e.session.follower; p != nil && of != nil {
		if r := p.role.Load(); r.reign != nil {
			r.reign.asksNoMore(of.Broker, &e.session.asks)
		}
	}
	s.sessions.watch.remove(e)
	e.session.drop(e)
}

// fetchIn is one fetch of a session.
func (s *Set) fetchIn(ctx context.Context, in *session, req *FetchRequest,
	now time.Time) (FetchResponse,
	error) {
	in.asks.at.Store(&now)
	s.update(in, req)
	if !s.sessions.table.used(in, len(in.entries), now) {
		s.endSession(in)
		// a new one of so many there is no room for, and it goes on without
		return FetchResponse{}, ErrSessionNotFound
	}
	if again := in.again.Swap(false); again || in.committed != req.ReadCommitted {
		in.queueAll()
	}
	in.committed = req.ReadCommitted
	s.glance(in, now)
	seen := s.look(in, req)
	if !seen.enough && req.Wait > 0 {
		release(seen.results)
		s.await(ctx, in, req)
		if in.isOver() {
			return in.closed()
		}
		s.glance(in, time.Now())
		seen = s.look(in, req)
	}
	seen.handOver()
	return FetchResponse{in.id, seen.results}, nil
}

// closed answers a fetch whose session was given up while it waited. A follower is told that there
// is none any more, and asks anew; what it said may be of before another session of its own, and
// counts no more. A consumer may have to be told of all its partitions, and is refused.
func (s *session) closed() (FetchResponse, error) {
	if s.follower != nil {
		return FetchResponse{}, nil
	}
	return FetchResponse{}, ErrSessionNotFound
}

func release(results []FetchResult) {
	for i := range results {
		if results[i].Data != nil {
			results[i].Data.Release()
		}
	}
}

// update takes in what a fetch says: first what is wanted, then what is not, as Kafka does.
func (s *Set) update(in *session, req *FetchRequest) {
	for i := range req.Partitions {
		want := &req.Partitions[i]
		key := KeyOf(want.Topic, want.ID)
		e := in.entries[key]
		if e == nil {
			e = &sessionEntry{session: in, key: key, told: told{-1, -1}}
			in.entries[key] = e
		}
		name := e.want.ID
		if e.want = *want; e.watched {
			e.want.ID = name
		}
		s.find(e)
		in.queue(e)
	}
	for _, key := range req.Forgotten {
		if e := in.entries[key]; e != nil {
			s.leave(e)
		}
	}
}

// find has events find a partition, as soon as its topic's name is known.
func (s *Set) find(e *sessionEntry) {
	if e.watched {
		return
	}
	if e.want.ID.Topic == "" {
		topic := s.view.Load().image.TopicByID(e.want.Topic)
		if topic == nil {
			return // it stays queued: what it is told is an error
		}
		e.want.ID.Topic = topic.Name
	}
	s.sessions.watch.add(e)
}

// seen is what a look at a session came to: what there is to tell, of which partitions, and whether
// it is enough to answer (see Set.read).
type seen struct {
	results []FetchResult
	of      []*sessionEntry
	enough  bool
}

// look looks at what is queued, within the request's budget. What has anything to say stays queued
// until it has not: what is told may be lost, or not be taken.
func (s *Set) look(in *session, req *FetchRequest) (all seen) {
	total := 0
	var again []*sessionEntry
	for _, e := range in.take() {
		s.find(e)
		want := e.want
		want.BytesMax = min(want.BytesMax, max(req.BytesMax-total, 0))
		var result FetchResult
		result, e.at = s.readOne(req, want, &in.asks, total == 0)
		e.at.want = e.want // not cut by what the others took
		at := &e.at
		failed, tells := at.partition == nil, e.tells(&result, req.Session.Epoch == SessionNew)
		all.enough = all.enough || failed || at.more || result.OffsetsChanged && at.role.brisk
		total += at.bytes
		if failed || tells || at.more || at.held {
			again = append(again, e)
		}
		if tells {
			all.results, all.of = append(all.results, result), append(all.of, e)
		} else if result.Data != nil {
			result.Data.Release()
		}
	}
	in.queue(again...)
	all.enough = all.enough || total >= min(req.BytesMin, req.BytesMax)
	return all
}

// tells tells whether a result is to be told.
func (e *sessionEntry) tells(r *FetchResult, first bool) bool {
	if r.MustRespond() || e.session.follower != nil {
		return r.MustRespond()
	}
	return first || told{r.HighWater, r.LogStart} != e.told ||
		r.PreferredReplica != metadata.NoBroker
}

// handOver notes what a consumer is told, and counts it.
func (a *seen) handOver() {
	for i, e := range a.of {
		if e.session.follower != nil {
			return
		}
		r := &a.results[i]
		e.told = told{r.HighWater, r.LogStart}
		if r.Err != nil {
			e.told = told{-1, -1} // so that it hears of the offsets again
		}
		if e.at.bytes > 0 {
			e.at.partition.fetchedBytes.Add(float64(e.at.bytes))
		}
	}
}

// MustRespond tells whether a follower learns anything from a result.
func (f *FetchResult) MustRespond() bool {
	return f.OffsetsChanged || f.Err != nil || f.Diverging != nil || f.Data != nil &&
		f.Data.Length > 0
}

// glance queues what has news that came without an event: where the log begins, below what all
// tombstones are lonely, and whatever an event should have told of. It does so once in a while.
func (s *Set) glance(in *session, now time.Time) {
	if now.Sub(in.glanced) < glanceEvery {
		return
	}
	in.glanced = now
	for _, e := range in.entries {
		if e.hasNews() {
			in.queue(e)
		}
	}
}

// hasNews tells whether a look would find anything to tell of the offsets.
func (e *sessionEntry) hasNews() bool {
	p, r := e.at.partition, e.at.role
	if p == nil || p.serves(r) != nil {
		return true
	}
	now := FetchResult{HighWater: p.log.HighWatermark(), LogStart: p.log.LogStart()}
	if e.session.follower == nil {
		return e.told != told{now.HighWater, now.LogStart}
	}
	now.tell(p, r, &e.want)
	return now.OffsetsChanged || p.log.LogEnd() != e.want.Offset
}

// await waits until there is enough to tell, or for req.Wait.
func (s *Set) await(ctx context.Context, in *session, req *FetchRequest) {
	op := &delayedSession{session: in, req: req, done: make(chan struct{})}
	purgatory := s.fetches
	if in.follower != nil {
		purgatory = s.pulls
	}
	waiting := purgatory.Wait(op, req.Wait)
	in.waits(waiting)
	wait(ctx, waiting, req.Interrupt, op.done)
	in.waited()
	in.queue(op.looked...)
	if req.Session.Epoch == SessionNew {
		in.queueAll() // the first answer has all
	}
}

// delayedSession is a fetch of a session that waits. It looks only at what was queued meanwhile.
type delayedSession struct {
	session *session
	req     *FetchRequest
	looked  []*sessionEntry // each once
	total   int             // bytes that those have
	done    chan struct{}
}

// TryComplete implements timer.Operation.
func (d *delayedSession) TryComplete() bool {
	enough := false
	for _, e := range d.session.take() {
		if e.counted.by != d {
			e.counted = counted{by: d}
			d.looked = append(d.looked, e)
		}
		if e.at.partition == nil {
			enough = true
			continue
		}
		bytes, now := e.at.available(*d.req)
		d.total += bytes - e.counted.bytes
		e.counted.bytes = bytes
		enough = enough || now
	}
	if !enough && d.total < min(d.req.BytesMin, d.req.BytesMax) {
		return false
	}
	close(d.done)
	return true
}

// Expire implements timer.Operation.
func (d *delayedSession) Expire() { close(d.done) }

// markConsumers and markFollowers queue a partition in the sessions that have it.
func (s *Set) markConsumers(id PartitionID)            { s.sessions.watch.mark(id, false, true) }
func (s *Set) markFollowers(id PartitionID, wake bool) { s.sessions.watch.mark(id, true, wake) }

// markAll queues all partitions in all sessions: there is a new image.
func (s *Set) markAll() {
	s.sessions.watch.each(func(e *sessionEntry) { e.session.mark(e, false) })
	s.sessions.table.each(func(in *session) { in.wake() })
}
