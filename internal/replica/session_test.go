package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/session"
)

// inSession starts a session for a follower that has all records. It returns the request of the
// session's next fetch, which names no partition.
func inSession(t testing.TB, s *Set, req FetchRequest) FetchRequest {
	t.Helper()
	req.Session = session.ID{}
	got, err := s.FetchInSession(t.Context(), req)
	if err != nil || got.Session == 0 {
		t.Fatalf("got %+v, %v; want a new session", got, err)
	}
	releaseResults(got.Results)
	req.Session, req.Partitions = session.ID{ID: got.Session, Epoch: 1}, nil
	return req
}

// nextFetch sends a session's next fetch, and prepares req for the fetch after it.
func nextFetch(t testing.TB, s *Set, req *FetchRequest) []FetchResult {
	t.Helper()
	got, err := s.FetchInSession(t.Context(), *req)
	if err != nil || got.Session != req.Session.ID {
		t.Fatalf("got %+v, %v; want session %d", got, err, req.Session.ID)
	}
	req.Session, req.Partitions, req.Forgotten = req.Session.Next(), nil, nil
	releaseResults(got.Results)
	return got.Results
}

func TestSessionReadsOnlyDirtyPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, req := caughtUp(t, 50)
		whole := slices.Clone(req.Partitions)
		req = inSession(t, s, req)
		for len(nextFetch(t, s, &req)) > 0 {
			req.Partitions = whole // repeats all requests until the leader has nothing to report
		}
		in := s.sessions.cache.get(req.Session.ID)
		if n := in.mu.dirty.Len(); n != 0 {
			t.Fatalf("%d partitions are dirty without an event", n)
		}
		s.Append(1, []ProducePartition{{ID: id("a", 7), Batch: batch(t, "x")}})
		if n := in.mu.dirty.Len(); n != 1 {
			t.Fatalf("%d partitions are dirty after one record", n)
		}
		if got := nextFetch(t, s, &req); len(got) != 1 || got[0].ID != id("a", 7) {
			t.Errorf("got %+v, want only partition 7", got)
		}
	})
}

// TestSessionFetchWaits checks that a waiting fetch returns after an append, but not after events
// that do not concern the follower.
func TestSessionFetchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, req := caughtUp(t, 3)
		for i := range req.Partitions {
			req.Partitions[i].HighWater = 1
		}
		req = inSession(t, s, req)
		// The wait ends before retention deletes the records, whose timestamps are in 1970.
		req.Wait = 10 * time.Second
		type answer struct {
			results []FetchResult
			took    time.Duration
		}
		answers := make(chan answer, 1)
		fetch := func() {
			begin := time.Now()
			got := nextFetch(t, s, &req)
			answers <- answer{got, time.Since(begin)}
		}
		go fetch()
		time.Sleep(time.Second)
		s.Append(1, []ProducePartition{{ID: id("a", 2), Batch: batch(t, "x")}})
		if a := <-answers; a.took != time.Second || len(a.results) != 1 ||
			a.results[0].ID != id("a", 2) {
			t.Errorf("got %+v, want only partition 2 after 1 s", a)
		}
		has := FetchPartition{ID: id("a", 2), Topic: s.view.Load().image.Topics[0].ID, Offset: 2,
			DurableEnd: 2, BytesMax: 1, LeaderEpoch: 1, LastEpoch: 1, HighWater: 2}
		req.Partitions = []FetchPartition{has}
		go fetch()
		if a := <-answers; a.took != req.Wait || len(a.results) != 0 {
			t.Errorf("without an event: %+v", a)
		}
	})
}

// TestSessionFetchIsInterrupted checks that a waiting fetch ends if its connection interrupts it,
// if the session's next fetch arrives, or if the session or the set is closed.
func TestSessionFetchIsInterrupted(t *testing.T) {
	for _, event := range []string{"connection", "next fetch", "end of the session",
		"end of the set"} {
		synctest.Test(t, func(t *testing.T) {
			s, req := caughtUp(t, 1)
			req = inSession(t, s, req)
			interrupt := make(chan struct{}, 1)
			waiting := req
			waiting.Wait, waiting.Interrupt = time.Minute, interrupt
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
			switch event {
			case "connection":
				interrupt <- struct{}{}
			case "next fetch":
				req.Session = req.Session.Next()
				nextFetch(t, s, &req)
			case "end of the session":
				s.sessions.close(s.sessions.cache.get(req.Session.ID))
			default:
				s.Close()
			}
			synctest.Wait()
			select {
			case id := <-done:
				if closed := event == "end of the session"; closed != (id == 0) {
					t.Errorf("%s: session %d", event, id)
				}
			default:
				t.Errorf("%s: the fetch still waits", event)
			}
		})
	}
}

// TestWrongSessionFetchesAreRejected checks that fetches that do not match their session are
// rejected, and do not change the session.
func TestWrongSessionFetchesAreRejected(t *testing.T) {
	s, req := caughtUp(t, 2)
	req = inSession(t, s, req)
	other, ids, consumer := metadata.InSync{Broker: 2, Epoch: 2}, req, req
	ids.TopicIDs, consumer.Replica = true, nil
	for name, c := range map[string]struct {
		req  FetchRequest
		want error
	}{
		"another epoch": {FetchRequest{Replica: req.Replica,
			Session: session.ID{ID: req.Session.ID, Epoch: 2}}, session.ErrEpoch},
		"no such session": {FetchRequest{Replica: req.Replica,
			Session: session.ID{ID: req.Session.ID + 1, Epoch: 1}}, session.ErrNotFound},
		"another broker epoch": {FetchRequest{Replica: &other, Session: req.Session},
			session.ErrNotFound},
		"a consumer": {consumer, session.ErrNotFound},
		"topic ids":  {ids, session.ErrTopicIDs},
	} {
		if got, err := s.FetchInSession(t.Context(), c.req); !errors.Is(err, c.want) ||
			got.Session != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	nextFetch(t, s, &req)
	ended := FetchRequest{Replica: req.Replica,
		Session: session.ID{ID: req.Session.ID, Epoch: session.None}}
	if got, err := s.FetchInSession(t.Context(), ended); err != nil || got.Session != 0 {
		t.Errorf("got %+v, %v; want no session", got, err)
	}
	if _, err := s.FetchInSession(t.Context(), req); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a closed session: %v", err)
	}
}

// TestNewBrokerEpochClosesEarlierSessions checks that a broker's first session in a new broker
// epoch closes the sessions of its earlier epochs. It must not close sessions of the same epoch (a
// follower may have two), nor sessions of other clients.
func TestNewBrokerEpochClosesEarlierSessions(t *testing.T) {
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
	if n := len(s.sessions.cache.all()); n != 4 {
		t.Fatalf("%d sessions, want 4", n)
	}
	newEpoch := metadata.InSync{Broker: 2, Epoch: 2}
	req.Replica = &newEpoch
	inSession(t, s, req)
	if n := len(s.sessions.cache.all()); n != 3 {
		t.Errorf("%d sessions, want 3", n)
	}
}

// TestOversizedSessionIsClosed checks that a session that grows beyond the limit is closed, and
// that the client must continue without a session.
func TestOversizedSessionIsClosed(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 1, nil)
	b.apply()
	req := fetch(0, 0, id("a", 0))
	got, err := b.FetchInSession(t.Context(), req)
	if err != nil || got.Session == 0 {
		t.Fatal(err)
	}
	releaseResults(got.Results)
	req.Session, req.Partitions = session.ID{ID: got.Session, Epoch: 1}, nil
	for i := range int32(session.PartitionsMax + 1) {
		req.Partitions = append(req.Partitions, FetchPartition{ID: id("none", i)})
	}
	if _, err := b.FetchInSession(t.Context(), req); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a fetch with too many partitions: got error %v, want %v", err,
			session.ErrNotFound)
	}
	if n := len(b.sessions.watch.partitions); n != 0 || b.sessions.cache.cache.Partitions() != 0 {
		t.Errorf("%d partitions are watched, the cache's size is %d", n, b.sessions.cache.cache.Partitions())
	}
	req.Session = session.ID{}
	if got, err := b.FetchInSession(t.Context(), req); err != nil || got.Session != 0 ||
		len(got.Results) != len(req.Partitions) {
		t.Errorf("without a session: %d results, %v", len(got.Results), err)
	}
}

// TestSessionsDuringApply checks that every waiting fetch is woken. With -race, it also checks that
// sessions, Apply and producers share no unguarded data.
func TestSessionsDuringApply(t *testing.T) {
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
				releaseResults(got.Results)
				req.Session, req.Partitions = session.ID{ID: got.Session,
					Epoch: req.Session.Epoch}.Next(),
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
			for _, in := range b.sessions.cache.all() {
				if in.id%4 == 0 {
					b.sessions.close(in)
				}
			}
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

// TestPartitionsBelowMinISRAreReadFirst checks that, if a follower lacks one record in each
// partition and a response has room for one record, the response contains the record of the
// partition whose producers wait for the follower.
func TestPartitionsBelowMinISRAreReadFirst(t *testing.T) {
	s, req := caughtUp(t, 9)
	before := s.view.Load().image
	topic := *before.Topics[0]
	topic.Settings.MinInSyncReplicas = 2
	topic.Partitions = nil
	for i := range int32(9) {
		isr := []int32{self, 2}
		if i == 6 {
			isr = isr[:1]
		}
		topic.Partitions = append(topic.Partitions, &metadata.Partition{Index: i,
			Replicas: []int32{self, 2}, Leader: self, LeaderEpoch: 2, ISR: isr})
	}
	if _, err := s.Apply(metadata.NewImage("ours", metadata.CleanerBudget{}, before.Brokers,
		[]*metadata.Topic{&topic})); err != nil {
		t.Fatal(err)
	}
	for i := range req.Partitions {
		p := &req.Partitions[i]
		p.Offset, p.DurableEnd, p.HighWater, p.LeaderEpoch, p.LastEpoch = 0, 0, 0, 2, -1
	}
	req.BytesMax = 1
	req = inSession(t, s, req)
	for range 3 {
		var got []PartitionID
		for _, result := range nextFetch(t, s, &req) {
			if result.Data != nil && result.Data.Length > 0 {
				got = append(got, result.ID)
			}
		}
		if len(got) != 1 || got[0] != id("a", 6) {
			t.Errorf("records of partitions %v, want those of partition 6", got)
		}
	}
}
