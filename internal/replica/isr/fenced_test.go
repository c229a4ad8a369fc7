package isr

import (
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestFencedMemberCountsUntilItsRemovalIsRecorded checks how the leader handles an ISR member that,
// according to the image, has restarted after a crash. The leader must propose the removal at once,
// although the member was recently caught up. The high watermark must wait for the member until the
// removal is recorded, because the image may be old: the member may have been elected before it
// crashed. If another replica was elected, the removal must fail.
func TestFencedMemberCountsUntilItsRemovalIsRecorded(t *testing.T) {
	now := time.Unix(1000, 0)
	for outcome, want := range map[Outcome]int64{Recorded: 20, Conflict: 10, Unknown: 10} {
		s := New(1, 0, 10*time.Second)
		isr := []int32{1, 2, 3}
		s.ApplyImage([]Replica{{Broker: 2, LiveEpoch: 1, RecordedEpoch: 1},
			{Broker: 3, LiveEpoch: 1, RecordedEpoch: 1}}, isr, 0, now)
		for id, end := range map[int32]int64{2: 20, 3: 10} {
			s.Fetched(Fetch{From: metadata.InSync{Broker: id, Epoch: 1}, DurableEnd: end}, 20, now)
		}
		s.ApplyImage([]Replica{{Broker: 2, LiveEpoch: 1, RecordedEpoch: 1},
			{Broker: 3, LiveEpoch: 2, RecordedEpoch: 1, FencedBelow: 2}}, isr, 0, now)
		if hw := s.HighWatermark(20, 20, now); hw != 10 {
			t.Errorf("before the removal the high watermark is %d, want 10", hw)
		}
		from, to, ok := s.Propose(1, Extent{HighWatermark: 10, End: 20}, now)
		if !ok || !slices.Equal(from, isr) || !slices.Equal(idsOf(to), []int32{1, 2}) {
			t.Fatalf("got proposal %v -> %v, %t", from, to, ok)
		}
		s.Settle(outcome, 0, now)
		if hw := s.HighWatermark(20, 20, now); hw != want {
			t.Errorf("after outcome %d the high watermark is %d, want %d", outcome, hw, want)
		}
	}
}

// TestFencedMemberThatHasFetchedIsRenewed checks that the leader records a restarted member with
// its new broker epoch if the member's first fetch arrives before the image that shows the restart.
// A member with a fenced epoch could not be elected.
func TestFencedMemberThatHasFetchedIsRenewed(t *testing.T) {
	now := time.Unix(1000, 0)
	s, isr := New(1, 0, 10*time.Second), []int32{1, 2}
	s.ApplyImage([]Replica{{Broker: 2, LiveEpoch: 1, RecordedEpoch: 1}}, isr, 0, now)
	s.Fetched(Fetch{From: metadata.InSync{Broker: 2, Epoch: 2}, DurableEnd: 20}, 20, now)
	s.ApplyImage([]Replica{{Broker: 2, LiveEpoch: 2, RecordedEpoch: 1, FencedBelow: 2}}, isr, 0, now)
	log := Extent{HighWatermark: 20, End: 20}
	from, to, ok := s.Propose(1, log, now)
	if !ok || !slices.Equal(from, isr) || len(to) != 2 || to[1].Epoch != 2 {
		t.Fatalf("got proposal %v -> %v, %t; want broker 2 in epoch 2", from, to, ok)
	}
	s.Settle(Recorded, 0, now)
	if _, to, ok := s.Propose(1, log, now); ok {
		t.Errorf("proposed %v again", to)
	}
}

// TestReplicaRemovedDuringAnUpdate checks that the high watermark does not wait for a replica that
// an image removes while an update with this replica is in flight, whatever the update's outcome.
func TestReplicaRemovedDuringAnUpdate(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, outcome := range []Outcome{Recorded, Unknown} {
		s := New(1, 0, 10*time.Second)
		both := []Replica{{Broker: 2, LiveEpoch: 1, RecordedEpoch: -1},
			{Broker: 3, LiveEpoch: 1, RecordedEpoch: 1}}
		s.ApplyImage(both, []int32{1, 3}, 0, now)
		for id := range both {
			s.Fetched(Fetch{From: metadata.InSync{Broker: both[id].Broker, Epoch: 1},
				DurableEnd: 20}, 20, now)
		}
		if _, to, ok := s.Propose(1, Extent{HighWatermark: 20, End: 20}, now); !ok || len(to) != 3 {
			t.Fatalf("got proposal %v, %t", to, ok)
		}
		s.ApplyImage(both[1:], []int32{1, 3}, 0, now)
		s.Settle(outcome, 0, now)
		if hw := s.HighWatermark(20, 20, now); hw != 20 || s.IsRecorded(2) {
			t.Errorf("after outcome %d the high watermark is %d, the ISR %v", outcome, hw,
				s.Recorded())
		}
	}
}
