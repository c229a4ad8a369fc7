package group

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// table plays a group by hand: no chance, no failovers.
type table struct {
	*world
	tokens map[Token]Answer
}

func newTable(t *testing.T, config Config) *table {
	w := newWorld(t, 1)
	w.state = New(config, w)
	w.state.Loaded(w.now)
	return &table{w, map[Token]Answer{}}
}

// do replays what is to be stored, and keeps the answers.
func (p *table) do(out Output) {
	p.t.Helper()
	for _, r := range out.Records {
		more, err := p.state.Replay(p.now, r.Key, r.Value)
		if err != nil {
			p.t.Fatal(err)
		}
		out.Answers = append(out.Answers, more...)
	}
	for _, a := range out.Answers {
		p.tokens[a.To] = a
	}
}

// enter lets one join with protocols, and returns its token; its id is the token's number.
func (p *table) enter(protocols ...string) Token {
	p.token++
	j := Join{
		To: p.token, Group: "g", NewMember: fmt.Sprint(p.token), Session: 10 * time.Second,
		Rebalance: time.Minute, ProtocolType: "consumer",
	}
	for _, name := range protocols {
		j.Protocols = append(j.Protocols, Protocol{Name: name})
	}
	p.do(p.state.Join(p.now, j))
	return p.token
}

// pass lets time pass, to the moment.
func (p *table) pass(d time.Duration) {
	p.now = p.now.Add(d)
	for key, at := range p.timers {
		if !at.After(p.now) {
			delete(p.timers, key)
			p.do(p.state.Fire(p.now, key))
		}
	}
}

// The first member of an empty group waits for others, again while some come, and no longer than a
// rebalance may take (KIP-134).
func TestKIP134EmptyGroupWaitsForMore(t *testing.T) {
	p := newTable(t, Config{})
	first := p.enter("range")
	p.pass(2 * time.Second)
	second := p.enter("range")
	p.pass(time.Second) // three seconds are over; one has come
	if len(p.tokens) != 0 {
		t.Fatalf("answered already: %+v", p.tokens)
	}
	p.pass(3 * time.Second)
	a, b := p.tokens[first].Result.Joined, p.tokens[second].Result.Joined
	if a.Generation != 1 || b.Generation != 1 || a.Leader != "1" || b.Leader != "1" ||
		len(a.Members) != 2 || len(b.Members) != 0 {
		t.Errorf("joined %+v and %+v", a, b)
	}
}

// The protocol is one that all know, and that most like best.
func TestProtocolIsChosenByVotes(t *testing.T) {
	p := newTable(t, Config{})
	first := p.enter("range", "sticky", "hash")
	p.enter("own", "sticky", "range")
	p.enter("sticky", "range")
	p.pass(3 * time.Second)
	p.pass(3 * time.Second)
	if got := p.tokens[first].Result.Joined.Protocol; got != "sticky" {
		t.Errorf("protocol %q", got)
	}
	if refused := p.enter("other"); !errors.Is(p.tokens[refused].Err, ErrInconsistentProtocol) {
		t.Errorf("one that knows none of them: %+v", p.tokens[refused])
	}
}

func TestGroupIsBounded(t *testing.T) {
	p := newTable(t, Config{MembersMax: 2})
	p.enter("range")
	p.enter("range")
	if third := p.enter("range"); !errors.Is(p.tokens[third].Err, ErrGroupFull) {
		t.Errorf("the third: %+v", p.tokens[third])
	}
	p = newTable(t, Config{RecordBytesMax: 90})
	p.enter("range")
	p.enter("range")
	if third := p.enter("range"); !errors.Is(p.tokens[third].Err, ErrGroupFull) {
		t.Errorf("more than can be stored: %+v", p.tokens[third])
	}
	for _, session := range []time.Duration{0, time.Second, time.Hour} {
		p.token++
		p.do(p.state.Join(p.now,
			Join{To: p.token, Group: "other", Session: session, ProtocolType: "c",
				Protocols: []Protocol{{Name: "range"}}}))
		if got := p.tokens[p.token].Err; !errors.Is(got, ErrInvalidSession) {
			t.Errorf("a session of %v: %v", session, got)
		}
	}
}

// Offsets of a group with members stay, those of a topic that is gone do not, and a group with
// members is not deleted.
func TestOffsetsGoWithTheirTopicAndNotUnderMembers(t *testing.T) {
	p := newTable(t, Config{Retention: time.Minute})
	commit := func(topic string) {
		_, out, err := p.state.Commit(p.now,
			Commit{Group: "g", Generation: -1, Offsets: []CommitOffset{
				{Topic: topic, Offset: Offset{Offset: 1, LeaderEpoch: -1, ExpireMs: -1}},
			}})
		if err != nil {
			t.Fatal(err)
		}
		p.do(out)
	}
	commit("a")
	commit("b")
	p.enter("range")
	p.pass(2 * time.Minute)
	out, _ := p.state.Expire(p.now, 100)
	if p.do(out); p.state.Offsets() != 2 {
		t.Errorf("%d offsets are left of a group with a member", p.state.Offsets())
	}
	if _, err := p.state.Delete("g"); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("deleted with a member: %v", err)
	}
	p.do(p.state.ForgetOffsets(func(topic string, _ [16]byte) bool { return topic == "a" }))
	if _, has := p.state.Committed("g", "a", 0); has || p.state.Offsets() != 1 {
		t.Error("the offset of a topic that is gone is left")
	}
	for older, want := range map[bool]error{true: ErrIllegalGeneration, false: ErrNotFound} {
		if _, _, err := p.state.Commit(p.now,
			Commit{Group: "none", Generation: 3, Member: "m", NoEpochs: older}); !errors.Is(err,
			want) {
			t.Errorf("a commit in a generation of no group: %v, want %v", err, want)
		}
	}
	errs, _, err := p.state.Commit(p.now,
		Commit{Group: "h", Generation: -1, Offsets: []CommitOffset{
			{Topic: "a", Offset: Offset{Metadata: string(make([]byte, 4097))}},
		}})
	if err != nil || !errors.Is(errs[0], ErrMetadataTooLarge) {
		t.Errorf("much metadata: %v, %v", errs, err)
	}
}

// Offsets of topics that members ask for stay however old they are, those of others go, and none of
// what members ask for is read wrongly.
func TestOffsetsOfTopicsThatNobodyAsksForGo(t *testing.T) {
	for name, test := range map[string]struct {
		subscription []byte
		left         int
	}{
		"one of two": {(&kmsg.ConsumerMemberMetadata{Version: 0,
			Topics: []string{"a"}}).AppendTo(nil), 1},
		"both": {(&kmsg.ConsumerMemberMetadata{Version: 0,
			Topics: []string{"a", "b"}}).AppendTo(nil), 2},
		"nobody can tell": {[]byte{0}, 2},
		"neither": {(&kmsg.ConsumerMemberMetadata{Version: 0,
			Topics: []string{"c"}}).AppendTo(nil), 0},
		"later than the time": {nil, 0},
	} {
		p := newTable(t, Config{Retention: time.Minute, InitialDelay: -1})
		_, out, err := p.state.Commit(p.now,
			Commit{Group: "g", Generation: -1, Offsets: []CommitOffset{
				{Topic: "a", Offset: Offset{Offset: 1, LeaderEpoch: -1, ExpireMs: -1}},
				{Topic: "b", Offset: Offset{Offset: 1, LeaderEpoch: -1, ExpireMs: -1}},
			}})
		if err != nil {
			t.Fatal(err)
		}
		p.do(out)
		if test.subscription != nil {
			p.token++
			p.do(p.state.Join(p.now, Join{
				To: p.token, Group: "g", NewMember: "m", Session: time.Minute,
				ProtocolType: "consumer", Protocols: []Protocol{{"range", test.subscription}},
			}))
			p.pass(0)
			out, _ = p.state.Expire(p.now.Add(time.Hour), 100)
			if len(out.Records) != 0 {
				t.Errorf("%s: %d records in a rebalance", name, len(out.Records))
			}
			p.token++
			p.do(p.state.Sync(p.now,
				Sync{To: p.token, Group: "g", Member: "m", Generation: 1,
					Assignments: map[string][]byte{"m": {1}}}))
		}
		out, _ = p.state.Expire(p.now.Add(time.Minute-time.Millisecond), 100)
		if len(out.Records) != 0 {
			t.Errorf("%s: %d records too early", name, len(out.Records))
		}
		out, _ = p.state.Expire(p.now.Add(time.Minute), 100)
		if p.do(out); p.state.Offsets() != test.left {
			t.Errorf("%s: %d offsets are left, want %d", name, p.state.Offsets(), test.left)
		}
		counts := map[string]int{}
		p.state.CountPhases(counts)
		if want := map[bool]string{true: "map[]",
			false: "map[Stable:1]"}[test.subscription == nil]; fmt.Sprint(counts) != want {
			t.Errorf("%s: groups %v, want %s", name, counts, want)
		}
		if got := p.state.Expired(); got != uint64(2-test.left) {
			t.Errorf("%s: %d expired", name, got)
		}
	}
}

// A leader's assignment that cannot be stored is refused, and the others wait on for one that can.
func TestAssignmentThatIsTooLarge(t *testing.T) {
	p := newTable(t, Config{RecordBytesMax: 1000, InitialDelay: -1})
	first := p.enter("range")
	p.pass(0)
	joined := p.tokens[first].Result.Joined
	p.token++
	p.do(p.state.Sync(p.now, Sync{
		To: p.token, Group: "g", Member: joined.Member, Generation: joined.Generation,
		Assignments: map[string][]byte{joined.Member: make([]byte, 2000)},
	}))
	if got := p.tokens[p.token].Err; !errors.Is(got, ErrRecordTooLarge) {
		t.Errorf("sync: %v", got)
	}
}
