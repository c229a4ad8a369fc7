package replica

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// inSession begins a session of the follower that has all, and returns a fetch that continues it,
// with nothing new to say.
func inSession(t testing.TB, s *Set, req FetchRequest) FetchRequest {
	t.Helper()
	req.Session = SessionID{}
	got, err := s.FetchInSession(t.Context(), req)
	if err != nil || got.Session == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	release(got.Results)
	req.Session, req.Partitions = SessionID{got.Session, 1}, nil
	return req
}

// next continues a session.
func next(t testing.TB, s *Set, req *FetchRequest) []FetchResult {
	t.Helper()
	got, err := s.FetchInSession(t.Context(), *req)
	if err != nil || got.Session != req.Session.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	req.Session, req.Partitions, req.Forgotten = req.Session.Next(), nil, nil
	release(got.Results)
	return got.Results
}

// TestASessionLooksAtWhatHasNewsOnly: the rest costs nothing.
func TestASessionLooksAtWhatHasNewsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, req := caughtUp(t, 50)
		whole := slices.Clone(req.Partitions)
		req = inSession(t, s, req)
		for len(next(t, s, &req)) > 0 {
			req.Partitions = whole // it hears of the high watermarks
		}
		in := s.sessions.table.find(req.Session.ID)
		if n := len(in.mu.ready); n != 0 {
			t.Fatalf("%d partitions are looked at though there is no news", n)
		}
		s.Append(1, []ProducePartition{{ID: id("a", 7), Batch: batch(t, "x")}})
		if n := len(in.mu.ready); n != 1 {
			t.Fatalf("%d partitions are looked at for one record", n)
		}
		if got := next(t, s, &req); len(got) != 1 || got[0].ID != id("a", 7) {
			t.Errorf("%+v", got)
		}
	})
}

// TestASessionWaits for an append, and for nothing else that is not for it.
func TestASessionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, req := caughtUp(t, 3)
		for i := range req.Partitions {
			req.Partitions[i].HighWater = 1
		}
		req = inSession(t, s, req)
		req.Wait = 10 * time.Second // less than retention takes to give up records of 1970
		type answer struct {
			results []FetchResult
			took    time.Duration
		}
		answers := make(chan answer, 1)
		fetch := func() {
			begin := time.Now()
			got := next(t, s, &req)
			answers <- answer{got, time.Since(begin)}
		}
		go fetch()
		time.Sleep(time.Second)
		s.Append(1, []ProducePartition{{ID: id("a", 2), Batch: batch(t, "x")}})
		if a := <-answers; a.took != time.Second || len(a.results) != 1 ||
			a.results[0].ID != id("a", 2) {
			t.Errorf("%+v", a)
		}
		has := FetchPartition{ID: id("a", 2), Topic: s.view.Load().image.Topics[0].ID, Offset: 2,
			DurableEnd: 2, BytesMax: 1, LeaderEpoch: 1, LastEpoch: 1, HighWater: 2}
		req.Partitions = []FetchPartition{has}
		go fetch()
		if a := <-answers; a.took != req.Wait || len(a.results) != 0 {
			t.Errorf("without news: %+v", a)
		}
	})
}

// TestAFollowerHurriesItsFetch by its connection, and by the next fetch of the session, from
// wherever.
func TestAFollowerHurriesItsFetch(t *testing.T) {
	for _, way := range []string{"connection", "next fetch", "end of the session",
		"end of the set"} {
		synctest.Test(t, func(t *testing.T) {
			s, req := caughtUp(t, 1)
			req = inSession(t, s, req)
			hurry := make(chan struct{}, 1)
			waiting := req
			waiting.Wait, waiting.Interrupt = time.Minute, hurry
			waiting.Session = req.Session
			done := make(chan int32, 1)
			go func() {
				got, err := s.FetchInSession(t.Context(), waiting)
				if err != nil {
					t.Error(err)
				}
				done <- got.Session
			}()
			time.Sleep(time.Second)
			switch way {
			case "connection":
				hurry <- struct{}{}
			case "next fetch":
				req.Session = req.Session.Next()
				next(t, s, &req)
			case "end of the session":
				s.endSession(s.sessions.table.find(req.Session.ID))
			default:
				s.Close()
			}
			synctest.Wait()
			select {
			case session := <-done:
				if over := way == "end of the session"; over != (session == 0) {
					t.Errorf("%s: session %d", way, session)
				}
			default:
				t.Errorf("%s: it waits", way)
			}
		})
	}
}

// TestFetchesOutOfTurnAreRefused, and leave the session as it is.
func TestFetchesOutOfTurnAreRefused(t *testing.T) {
	s, req := caughtUp(t, 2)
	req = inSession(t, s, req)
	other, ids, consumer := metadata.InSync{Broker: 2, Epoch: 2}, req, req
	ids.TopicIDs, consumer.Replica = true, nil
	for name, c := range map[string]struct {
		req  FetchRequest
		want error
	}{
		"another epoch": {FetchRequest{Replica: req.Replica,
			Session: SessionID{req.Session.ID, 2}}, ErrSessionEpoch},
		"no such session": {FetchRequest{Replica: req.Replica,
			Session: SessionID{req.Session.ID + 1, 1}}, ErrSessionNotFound},
		"another incarnation": {FetchRequest{Replica: &other, Session: req.Session},
			ErrSessionNotFound},
		"a consumer": {consumer, ErrSessionNotFound},
		"by ids":     {ids, ErrSessionNames},
	} {
		if got, err := s.FetchInSession(t.Context(), c.req); !errors.Is(err, c.want) ||
			got.Session != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	next(t, s, &req)
	if last := (SessionID{5, math.MaxInt32}).Next(); last != (SessionID{5, 1}) {
		t.Errorf("behind the last epoch comes %v", last)
	}
	ended := FetchRequest{Replica: req.Replica, Session: SessionID{req.Session.ID, SessionNone}}
	if got, err := s.FetchInSession(t.Context(), ended); err != nil || got.Session != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.FetchInSession(t.Context(), req); !errors.Is(err, ErrSessionNotFound) {
		t.Errorf("a session that was ended: %v", err)
	}
}

// TestSessionsAreBounded by the rules of KIP-227.
func TestSessionsAreBounded(t *testing.T) {
	follower := &metadata.InSync{Broker: 2, Epoch: 1}
	begin := time.Unix(1000, 0)
	full := func(follower *metadata.InSync, size int) (*sessionTable, []*session) {
		var table sessionTable
		var all []*session
		for range sessionsMax {
			opened, evicted := table.open(follower, size, begin)
			if opened == nil || evicted != nil {
				t.Fatal("there is room")
			}
			all = append(all, opened)
		}
		return &table, all
	}
	for name, c := range map[string]struct {
		of, asks *metadata.InSync
		size     int // of the new one; the others have 10
		after    time.Duration
		opens    bool
	}{
		"all are new":                      {nil, nil, 1000, time.Minute, false},
		"old and smaller":                  {nil, nil, 11, 3 * time.Minute, true},
		"old and as large":                 {nil, nil, 10, 3 * time.Minute, false},
		"followers' are worth more":        {follower, nil, 1000, 3 * time.Minute, false},
		"a follower waits for no consumer": {nil, follower, 1, time.Second, true},
		"a larger follower, new":           {follower, follower, 1000, time.Minute, false},
		"a larger follower, old":           {follower, follower, 1000, 3 * time.Minute, true},
	} {
		table, all := full(c.of, 10)
		now := begin.Add(c.after)
		for _, s := range all {
			table.used(s, 10, now)
		}
		opened, evicted := table.open(c.asks, c.size, now)
		if (opened != nil) != c.opens || (len(evicted) == 1) != c.opens ||
			len(table.byID) != sessionsMax {
			t.Errorf("%s: opened %t, %d evicted, %d are left", name, opened != nil, len(evicted),
				len(table.byID))
		}
	}
	table, all := full(follower, 10)
	for _, s := range all[1:] {
		table.used(s, 10, begin.Add(3*time.Minute))
	}
	if _, evicted := table.open(nil, 1, begin.Add(3*time.Minute)); len(evicted) != 1 ||
		evicted[0] != all[0] {
		t.Errorf("one that nobody uses goes first: %d went", len(evicted))
	}
	if table.partitions != 10*(sessionsMax-1)+1 {
		t.Errorf("%d partitions are counted", table.partitions)
	}
	if opened, _ := table.open(nil, sessionPartitionsMax+1,
		begin.Add(3*time.Minute)); opened != nil {
		t.Error("more partitions than all sessions may have")
	}
}

// TestAnIncarnationEndsTheSessionsBeforeIt, and not those of its own: it may have two, and of
// nobody else.
func TestAnIncarnationEndsTheSessionsBeforeIt(t *testing.T) {
	s, req := caughtUp(t, 2)
	inSession(t, s, req)
	inSession(t, s, req)
	other := metadata.InSync{Broker: 3, Epoch: 1}
	of3 := req
	of3.Replica = &other
	inSession(t, s, of3)
	consumer := req
	consumer.Replica = nil
	inSession(t, s, consumer)
	if n := len(s.sessions.table.byID); n != 4 {
		t.Fatalf("%d sessions, want 4", n)
	}
	next := metadata.InSync{Broker: 2, Epoch: 2}
	req.Replica = &next
	inSession(t, s, req)
	if n := len(s.sessions.table.byID); n != 3 {
		t.Errorf("%d sessions, want 3", n)
	}
}

// TestASessionDoesNotGrowWithoutEnd: its client is sent away, and goes on without.
func TestASessionDoesNotGrowWithoutEnd(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 1, nil)
	b.apply()
	req := fetch(0, 0, id("a", 0))
	got, err := b.FetchInSession(t.Context(), req)
	if err != nil || got.Session == 0 {
		t.Fatal(err)
	}
	release(got.Results)
	req.Session, req.Partitions = SessionID{got.Session, 1}, nil
	for i := range int32(sessionPartitionsMax + 1) {
		req.Partitions = append(req.Partitions, FetchPartition{ID: id("none", i)})
	}
	if _, err := b.FetchInSession(t.Context(), req); !errors.Is(err, ErrSessionNotFound) {
		t.Errorf("%v", err)
	}
	if n := len(b.sessions.watch.entries); n != 0 || b.sessions.table.partitions != 0 {
		t.Errorf("%d are watched, %d counted", n, b.sessions.table.partitions)
	}
	req.Session = SessionID{}
	if got, err := b.FetchInSession(t.Context(), req); err != nil || got.Session != 0 ||
		len(got.Results) != len(req.Partitions) {
		t.Errorf("without a session: %d results, %v", len(got.Results), err)
	}
}

// TestSessionsUnderImages: with -race, that sessions, Apply and producers share nothing unguarded,
// and that whoever waits is woken.
func TestSessionsUnderImages(t *testing.T) {
	b := newBroker(t)
	b.topic("steady", 2, nil)
	b.topic("a", 2, nil)
	b.apply()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, 3)
	for i := range int32(2) {
		go func() {
			defer func() { done <- struct{}{} }()
			req := fetch(time.Millisecond, 0, id("steady", i), id("a", i))
			for offset := int64(0); ctx.Err() == nil; offset++ {
				got, err := b.FetchInSession(ctx, req)
				release(got.Results)
				req.Session, req.Partitions = SessionID{got.Session, req.Session.Epoch}.Next(),
					req.Partitions[:1]
				req.Partitions[0].Offset = offset
				if err != nil || got.Session == 0 {
					req = fetch(time.Millisecond, offset, id("steady", i), id("a", i))
				}
			}
		}()
	}
	go func() {
		defer func() { done <- struct{}{} }()
		for ctx.Err() == nil {
			b.Produce(ctx, AcksAll, time.Second,
				[]ProducePartition{{ID: id("steady", 0), Batch: batch(t, "x")},
					{ID: id("a", 0), Batch: batch(t, "x")}})
			b.sessions.table.each(func(in *session) {
				if in.id%4 == 0 {
					b.endSession(in)
				}
			})
		}
	}()
	for range 50 {
		delete(b.topics, "a")
		b.apply()
		b.topic("a", 2, nil)
		b.apply()
	}
	cancel()
	for range 3 {
		<-done
	}
}
