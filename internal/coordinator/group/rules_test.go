package group

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fixture is a world in which the test chooses the steps: nothing is random, and there are no
// failovers.
type fixture struct {
	*world
	answers map[Token]Answer
}

func newFixture(t *testing.T, config Config) *fixture {
	w := newWorld(t, 1)
	w.state = New(config, w)
	w.state.Loaded(w.now)
	return &fixture{w, map[Token]Answer{}}
}

// apply replays an output's records and stores the answers in p.answers.
func (p *fixture) apply(out Output) {
	p.t.Helper()
	for _, r := range out.Records {
		more, err := p.state.Replay(p.now, r.Key, r.Value)
		if err != nil {
			p.t.Fatal(err)
		}
		out.Answers = append(out.Answers, more...)
	}
	for _, a := range out.Answers {
		p.answers[a.To] = a
	}
}

// join sends a Join with the given protocols and returns its token. The token's number is the new
// member's id.
func (p *fixture) join(protocols ...string) Token {
	p.token++
	j := Join{
		To: p.token, Group: "g", NewMember: fmt.Sprint(p.token), Session: 10 * time.Second,
		Rebalance: time.Minute, ProtocolType: "consumer",
	}
	for _, name := range protocols {
		j.Protocols = append(j.Protocols, Protocol{Name: name})
	}
	p.apply(p.state.Join(p.now, j))
	return p.token
}

// advance advances the clock by d and fires all timers that have expired.
func (p *fixture) advance(d time.Duration) {
	p.now = p.now.Add(d)
	for key, moment := range p.timers {
		if !moment.After(p.now) {
			delete(p.timers, key)
			p.apply(p.state.Fire(p.now, key))
		}
	}
}

// TestInitialRebalanceDelay checks that, if a second member joins within the first member's initial
// delay, both joins are answered only after the delay has been extended once (KIP-134).
func TestInitialRebalanceDelay(t *testing.T) {
	p := newFixture(t, Config{})
	first := p.join("range")
	p.advance(2 * time.Second)
	second := p.join("range")
	p.advance(time.Second) // the initial delay of 3 s ends and is extended
	if len(p.answers) != 0 {
		t.Fatalf("joins were answered before the extended delay: %+v", p.answers)
	}
	p.advance(3 * time.Second)
	a, b := p.answers[first].Result.Joined, p.answers[second].Result.Joined
	if a.Generation != 1 || b.Generation != 1 {
		t.Errorf("generations %d and %d, want 1", a.Generation, b.Generation)
	}
	if a.Leader != "1" || b.Leader != "1" {
		t.Errorf("leaders %s and %s, want 1", a.Leader, b.Leader)
	}
	if len(a.Members) != 2 || len(b.Members) != 0 {
		t.Errorf("members %+v and %+v, want both for the leader only", a.Members, b.Members)
	}
}

// TestProtocolIsSelectedByVotes checks that a group whose three members support different protocols
// selects the protocol that most of them prefer among those that all three support.
func TestProtocolIsSelectedByVotes(t *testing.T) {
	p := newFixture(t, Config{})
	first := p.join("range", "sticky", "hash")
	p.join("own", "sticky", "range")
	p.join("sticky", "range")
	p.advance(3 * time.Second)
	p.advance(3 * time.Second)
	if got := p.answers[first].Result.Joined.Protocol; got != "sticky" {
		t.Errorf("protocol %q", got)
	}
	if refused := p.join("other"); !errors.Is(p.answers[refused].Err, ErrInconsistentProtocol) {
		t.Errorf("a join without a common protocol: %+v", p.answers[refused])
	}
}

func TestGroupLimits(t *testing.T) {
	p := newFixture(t, Config{MembersMax: 2})
	p.join("range")
	p.join("range")
	if third := p.join("range"); !errors.Is(p.answers[third].Err, ErrGroupFull) {
		t.Errorf("a third member: %+v", p.answers[third])
	}
	p = newFixture(t, Config{RecordBytesMax: 90})
	p.join("range")
	p.join("range")
	if third := p.join("range"); !errors.Is(p.answers[third].Err, ErrGroupFull) {
		t.Errorf("a group above the record limit: %+v", p.answers[third])
	}
	for _, session := range []time.Duration{0, time.Second, time.Hour} {
		p.token++
		p.apply(p.state.Join(p.now,
			Join{To: p.token, Group: "other", Session: session, ProtocolType: "c",
				Protocols: []Protocol{{Name: "range"}}}))
		if got := p.answers[p.token].Err; !errors.Is(got, ErrInvalidSession) {
			t.Errorf("a session timeout of %v: %v", session, got)
		}
	}
}

// TestOffsetsOfAGroupWithMembers checks that the offsets of a classic group with a member do not
// expire during the initial delay, even if they are older than the retention, and that the group
// cannot be deleted. The offset of a deleted topic must nevertheless be deleted.
func TestOffsetsOfAGroupWithMembers(t *testing.T) {
	p := newFixture(t, Config{Retention: time.Minute})
	commit := func(topic string) {
		_, out, err := p.state.Commit(p.now,
			Commit{Group: "g", Generation: -1, Offsets: []CommitOffset{
				{Topic: topic, Offset: Offset{Offset: 1, LeaderEpoch: -1, ExpireMs: -1}},
			}})
		if err != nil {
			t.Fatal(err)
		}
		p.apply(out)
	}
	commit("a")
	commit("b")
	p.join("range")
	p.advance(2 * time.Minute)
	out, _ := p.state.Expire(p.now, 100)
	if p.apply(out); p.state.Offsets() != 2 {
		t.Errorf("%d offsets remain of a group with a member, want 2", p.state.Offsets())
	}
	if _, err := p.state.Delete("g"); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("delete with a member: %v", err)
	}
	p.apply(p.state.DeleteStaleOffsets(func(topic string, _ [16]byte) bool { return topic == "a" }))
	if _, has := p.state.Committed("g", "a", 0); has || p.state.Offsets() != 1 {
		t.Error("the offset of the deleted topic remains")
	}
	for older, want := range map[bool]error{true: ErrIllegalGeneration, false: ErrNotFound} {
		if _, _, err := p.state.Commit(p.now,
			Commit{Group: "none", Generation: 3, Member: "m", NoEpochs: older}); !errors.Is(err,
			want) {
			t.Errorf("a member's commit without a group: %v, want %v", err, want)
		}
	}
	errs, _, err := p.state.Commit(p.now,
		Commit{Group: "h", Generation: -1, Offsets: []CommitOffset{
			{Topic: "a", Offset: Offset{Metadata: string(make([]byte, 4097))}},
		}})
	if err != nil || !errors.Is(errs[0], ErrMetadataTooLarge) {
		t.Errorf("oversized metadata: %v, %v", errs, err)
	}
}

// TestOffsetsOfUnsubscribedTopicsExpire checks that, of offsets older than the retention, only
// those of topics to which no member subscribes expire. A subscription that cannot be decoded
// counts as a subscription to all topics.
func TestOffsetsOfUnsubscribedTopicsExpire(t *testing.T) {
	for name, test := range map[string]struct {
		subscription []byte
		remaining    int
	}{
		"subscribed to one": {(&kmsg.ConsumerMemberMetadata{Version: 0,
			Topics: []string{"a"}}).AppendTo(nil), 1},
		"subscribed to both": {(&kmsg.ConsumerMemberMetadata{Version: 0,
			Topics: []string{"a", "b"}}).AppendTo(nil), 2},
		"undecodable subscription": {[]byte{0}, 2},
		"subscribed to another topic": {(&kmsg.ConsumerMemberMetadata{Version: 0,
			Topics: []string{"c"}}).AppendTo(nil), 0},
		"no members": {nil, 0},
	} {
		p := newFixture(t, Config{Retention: time.Minute, InitialDelay: -1})
		_, out, err := p.state.Commit(p.now,
			Commit{Group: "g", Generation: -1, Offsets: []CommitOffset{
				{Topic: "a", Offset: Offset{Offset: 1, LeaderEpoch: -1, ExpireMs: -1}},
				{Topic: "b", Offset: Offset{Offset: 1, LeaderEpoch: -1, ExpireMs: -1}},
			}})
		if err != nil {
			t.Fatal(err)
		}
		p.apply(out)
		if test.subscription != nil {
			p.token++
			p.apply(p.state.Join(p.now, Join{
				To: p.token, Group: "g", NewMember: "m", Session: time.Minute,
				ProtocolType: "consumer", Protocols: []Protocol{{"range", test.subscription}},
			}))
			p.advance(0)
			out, _ = p.state.Expire(p.now.Add(time.Hour), 100)
			if len(out.Records) != 0 {
				t.Errorf("%s: %d records during a rebalance, want none", name, len(out.Records))
			}
			p.token++
			p.apply(p.state.Sync(p.now,
				Sync{To: p.token, Group: "g", Member: "m", Generation: 1,
					Assignments: map[string][]byte{"m": {1}}}))
		}
		out, _ = p.state.Expire(p.now.Add(time.Minute-time.Millisecond), 100)
		if len(out.Records) != 0 {
			t.Errorf("%s: %d records before the retention, want none", name, len(out.Records))
		}
		out, _ = p.state.Expire(p.now.Add(time.Minute), 100)
		if p.apply(out); p.state.Offsets() != test.remaining {
			t.Errorf("%s: %d offsets remain, want %d", name, p.state.Offsets(), test.remaining)
		}
		counts := map[string]int{}
		p.state.CountPhases(counts)
		if want := map[bool]string{true: "map[]",
			false: "map[Stable:1]"}[test.subscription == nil]; fmt.Sprint(counts) != want {
			t.Errorf("%s: groups %v, want %s", name, counts, want)
		}
		if got := p.state.Expired(); got != uint64(2-test.remaining) {
			t.Errorf("%s: %d offsets expired", name, got)
		}
	}
}

func TestOversizedAssignmentIsRejected(t *testing.T) {
	p := newFixture(t, Config{RecordBytesMax: 1000, InitialDelay: -1})
	first := p.join("range")
	p.advance(0)
	joined := p.answers[first].Result.Joined
	p.token++
	p.apply(p.state.Sync(p.now, Sync{
		To: p.token, Group: "g", Member: joined.Member, Generation: joined.Generation,
		Assignments: map[string][]byte{joined.Member: make([]byte, 2000)},
	}))
	if got := p.answers[p.token].Err; !errors.Is(got, ErrRecordTooLarge) {
		t.Errorf("sync: %v", got)
	}
}
