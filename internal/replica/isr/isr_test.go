package isr

import (
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestNewIncarnationResetsTheFollower checks that the leader discards the state reported by a
// replica when the replica gets a new incarnation id.
func TestNewIncarnationResetsTheFollower(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(1, 0, 10*time.Second)
	image := func(incarnation string, isr ...int32) {
		s.ApplyImage([]Replica{
			{Broker: 1, LiveEpoch: 1, Incarnation: "one"},
			{Broker: 2, LiveEpoch: 1, Incarnation: "two"},
			{Broker: 3, LiveEpoch: 1, Incarnation: incarnation},
		}, isr, 0, now)
	}
	from := func(incarnation string) metadata.InSync {
		return metadata.InSync{Broker: 3, Epoch: 1, ReplicaIncarnation: incarnation}
	}
	fetch := func(incarnation string, want bool) {
		t.Helper()
		_, ok := s.Fetched(Fetch{From: from(incarnation), DurableEnd: 10, TombstoneClean: 7}, 10,
			now)
		if ok != want {
			t.Errorf("fetch in incarnation %q: accepted %t, want %t", incarnation, ok, want)
		}
	}
	image("three", 1, 2, 3)
	s.Fetched(Fetch{From: metadata.InSync{Broker: 2, Epoch: 1, ReplicaIncarnation: "two"},
		DurableEnd: 10},
		10, now)
	fetch("three", true)
	fetch("another", false)
	fetch("", false)

	// Broker 3 has a new incarnation. The leader has missed the image in between, whose ISR did not
	// contain broker 3.
	image("again", 1, 2)
	if waits := s.TombstonesWaitFor(5); !slices.Contains(waits, 3) {
		t.Errorf("a tombstone at offset 5 waits for %v, want also the new incarnation", waits)
	}
	if s.IsRecorded(3) || s.TombstoneCleanOffset(9) != 0 || s.followers[3].durableEnd != -1 {
		t.Errorf("after a new incarnation: recorded ISR %v, tombstone-clean offset %d, follower %+v",
			s.recorded, s.TombstoneCleanOffset(9), s.followers[3])
	}
	fetch("three", false)
	fetch("again", true)
	_, to, ok := s.Propose(1, Extent{HighWatermark: 10, End: 10}, now)
	want := []metadata.InSync{{Broker: 1, Epoch: 1, ReplicaIncarnation: "one"},
		{Broker: 2, Epoch: 1, ReplicaIncarnation: "two"}, from("again")}
	if !ok || !slices.Equal(to, want) {
		t.Errorf("proposed %+v, want %+v", to, want)
	}
	s.Settle(Recorded, 0, now)
}

// TestFollowerWithDeletedRecordsDoesNotJoin checks that a follower that still has records that the
// leader has deleted joins the ISR only after it has deleted them too.
func TestFollowerWithDeletedRecordsDoesNotJoin(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(1, 0, time.Second)
	s.ApplyImage([]Replica{{Broker: 1, LiveEpoch: 1}, {Broker: 2, LiveEpoch: 1}}, []int32{1}, 0, now)
	for _, c := range []struct {
		logStart int64
		want     bool
	}{{4, false}, {5, true}} {
		_, ok := s.Fetched(Fetch{From: metadata.InSync{Broker: 2, Epoch: 1}, DurableEnd: 10,
			LogStart: c.logStart}, 10, now)
		if !ok {
			t.Fatal("the fetch was rejected")
		}
		if _, to, ok := s.Propose(1, Extent{5, 10, 10}, now); ok != c.want {
			t.Errorf("log start %d: proposed %t (%v), want %t", c.logStart, ok, to, c.want)
		}
	}
}

// TestSessionFetchKeepsFollowerCaughtUp checks that a follower with the whole log counts as caught
// up at the last fetch of its session. Fetches after the session was closed must have no effect.
func TestSessionFetchKeepsFollowerCaughtUp(t *testing.T) {
	begin := time.Unix(1000, 0)
	for closed, want := range map[bool]time.Duration{false: time.Minute, true: 0} {
		s := New(1, 0, time.Second)
		s.ApplyImage([]Replica{{Broker: 1, LiveEpoch: 1}, {Broker: 2, LiveEpoch: 1}}, []int32{1, 2},
			0, begin)
		session := &fakeSession{moment: begin}
		s.Fetched(Fetch{From: metadata.InSync{Broker: 2, Epoch: 1}, Session: session}, 0, begin)
		if closed {
			s.SessionClosed(2, session)
		}
		session.moment = begin.Add(time.Minute)
		s.SetLogEnd(1)
		if got := s.followers[2].caughtUpAt.Sub(begin); got != want {
			t.Errorf("session closed %t: caught up after %v, want %v", closed, got, want)
		}
	}
}

// TestStoppedFollowerDoesNotReturn checks that a follower whose log has stopped is not added to the
// ISR again, and that the high watermark does not wait for it, until it fetches again. The follower
// has the whole log, stops fetching the partition, and is removed from the ISR because of its
// report to the metadata store.
func TestStoppedFollowerDoesNotReturn(t *testing.T) {
	second := func(n int) time.Time { return time.Unix(int64(1000+n), 0) }
	for name, test := range map[string]struct {
		session *fakeSession
		// fetchedLater is set if the session fetches other partitions after the removal
		leftBefore, leftAfter, fetchedLater bool
	}{
		"without a session":               {},
		"left before the removal":         {&fakeSession{}, true, false, true},
		"left after the removal":          {&fakeSession{}, false, true, true},
		"no fetch reached the leader yet": {&fakeSession{}, false, false, false},
	} {
		s, log := New(1, 0, time.Hour), Extent{HighWatermark: 10, End: 10}
		replicas := []Replica{{Broker: 1, LiveEpoch: 1}, {Broker: 2, LiveEpoch: 1}}
		s.ApplyImage(replicas, []int32{1, 2}, 1, second(0))
		fetch := Fetch{From: metadata.InSync{Broker: 2, Epoch: 1}, DurableEnd: 10}
		if test.session != nil {
			test.session.moment, fetch.Session = second(1), test.session
		}
		s.Fetched(fetch, 10, second(1))
		if test.leftBefore {
			s.SessionClosed(2, test.session)
		}
		s.ApplyImage(replicas, []int32{1}, 2, second(2))
		if test.fetchedLater {
			test.session.moment = second(3)
		}
		if test.leftAfter {
			s.SessionClosed(2, test.session)
		}
		if _, to, ok := s.Propose(1, log, second(4)); ok || s.IsRecorded(2) {
			t.Errorf("%s: proposed %v, recorded %v", name, to, s.Recorded())
		}
		if hw := s.HighWatermark(20, 20, second(4)); hw != 20 {
			t.Errorf("%s: the high watermark is %d, want 20", name, hw)
		}
		if test.session != nil {
			test.session.moment = second(5)
		}
		s.Fetched(fetch, 10, second(5))
		if _, to, ok := s.Propose(1, log, second(5)); !ok || len(to) != 2 {
			t.Errorf("%s: after a fetch proposed %v, %t", name, to, ok)
		}
		if test.session != nil {
			s.Withdraw()
			s.SessionClosed(2, test.session)
			if _, to, ok := s.Propose(1, log, second(5)); ok {
				t.Errorf("%s: proposed %v although it ceased to fetch again", name, to)
			}
		}
	}
}

type fakeSession struct{ moment time.Time }

func (s *fakeSession) LastFetch() time.Time { return s.moment }
