package group

import (
	"errors"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
	"heartwood.dev/heartwood/internal/coordinator/consumer"
)

var tickets = consumer.Topic{ID: assignor.TopicID{1}, Name: "tickets", Partitions: 4}

// shown is a cluster with the topic tickets alone.
var shown = &consumer.Topics{
	ByName: func(name string) (consumer.Topic, bool) { return tickets, name == tickets.Name },
	All:    slices.Values([]consumer.Topic{tickets}),
}

// beat is a heartbeat of a member of the consumer protocol in group g; epoch 0 joins.
func (p *table) beat(member string, epoch int32) (consumer.Answer, error) {
	p.t.Helper()
	h := &consumer.Heartbeat{Group: "g", Member: member, Epoch: epoch, Rebalance: -1}
	if epoch == consumer.EpochJoin {
		h.Rebalance, h.Topics, h.Owned = time.Minute, []string{"tickets"}, assignor.Assignment{}
	}
	a, out, err := p.state.ConsumerHeartbeat(p.now, h, shown)
	p.keep(out)
	return a, err
}

// keep is do, and writes the log, so that failover finds it.
func (p *table) keep(out Output) {
	p.t.Helper()
	p.log = append(p.log, out.Records...)
	p.do(out)
}

// again loads the log into a new State.
func (p *table) again(config Config) {
	p.t.Helper()
	p.timers = map[TimerKey]time.Time{}
	p.state = New(config, p)
	for _, r := range p.log {
		if _, err := p.state.Replay(p.now, r.Key, r.Value); err != nil {
			p.t.Fatal(err)
		}
	}
	p.state.Loaded(p.now)
}

func (p *table) commitAs(member string, epoch int32, older bool) error {
	p.t.Helper()
	errs, out, err := p.state.Commit(p.now,
		Commit{Group: "g", Member: member, Generation: epoch, NoEpochs: older,
			Offsets: []CommitOffset{
				{Topic: "tickets", Offset: Offset{Offset: 7, TopicID: tickets.ID, LeaderEpoch: -1,
					ExpireMs: -1}},
			}})
	p.keep(out)
	if err == nil {
		err = errs[0]
	}
	return err
}

// wantErr fails if an error is another than wanted.
func (p *table) wantErr(what string, err, want error) {
	p.t.Helper()
	if !errors.Is(err, want) {
		p.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// A group changes its protocol when it is empty, with its offsets, and while it is not, refuses
// members of the other.
func TestEmptyGroupsChangeTheirProtocol(t *testing.T) {
	p := newTable(t, Config{InitialDelay: -1})
	_, err := p.beat("a", 1)
	p.wantErr("a heartbeat in a group that is not there", err, ErrNotFound)
	classic := p.enter("range")
	p.pass(time.Millisecond)
	_, err = p.beat("a", 0)
	p.wantErr("a consumer joins a classic group", err, ErrNotFound)
	p.sync("1", p.tokens[classic].Result.Joined.Generation)
	_, out := p.state.Leave(p.now, "g", []Leaver{{Member: "1"}})
	p.keep(out)
	p.wantErr("an admin's commit", p.commitAs("", -1, false), nil)

	if a, err := p.beat("a", 0); err != nil || a.Epoch != 1 || a.Assignment.Len() != 4 {
		t.Fatalf("a consumer joins: %+v, %v", a, err)
	}
	for _, loaded := range []bool{false, true} {
		if loaded {
			p.again(Config{InitialDelay: -1})
		}
		if list := p.state.List(); len(list) != 1 || !list[0].Consumer ||
			list[0].Phase != "Stable" || list[0].ProtocolType != "consumer" {
			t.Errorf("listed as %+v", list)
		}
		_, err = p.state.Describe("g")
		p.wantErr("DescribeGroups", err, ErrNotFound)
		if d, err := p.state.DescribeConsumer("g"); err != nil || len(d.Members) != 1 {
			t.Errorf("described as %+v, %v", d, err)
		}
		if o, ok := p.state.Committed("g", "tickets", 0); !ok || o.Offset != 7 {
			t.Errorf("the offset is %+v, %v", o, ok)
		}
		p.wantErr("classic join", p.tokens[p.enter("range")].Err, ErrInconsistentProtocol)
		p.wantErr("classic heartbeat", p.state.Heartbeat(p.now, "g", "a", "", 1), ErrUnknownMember)
		p.wantErr("commit", p.commitAs("a", 1, false), nil)
		p.wantErr("commit by an old version", p.commitAs("a", 1, true), ErrOldProtocol)
		p.wantErr("commit of a stranger", p.commitAs("", -1, false), ErrUnknownMember)
		p.wantErr("commit in another epoch", p.commitAs("a", 2, false), consumer.ErrStaleEpoch)
		p.wantErr("fetch in another epoch", p.state.MayFetch("g", Reader{"a", 2}),
			consumer.ErrStaleEpoch)
		p.wantErr("fetch", p.state.MayFetch("g", Reader{"", -1}), nil)
		_, err = p.state.Delete("g")
		p.wantErr("delete", err, ErrNotEmpty)
		errs, _, err := p.state.DeleteOffsets("g", []TopicPartition{{Topic: "tickets"}})
		if err != nil || !errors.Is(errs[0], ErrSubscribed) {
			t.Errorf("delete offsets: %v, %v", errs, err)
		}
	}
	if _, err := p.beat("a", consumer.EpochLeave); err != nil {
		t.Fatal(err)
	}
	back := p.enter("range")
	p.pass(time.Millisecond)
	if joined := p.tokens[back]; joined.Err != nil || joined.Result.Joined.Generation != 1 {
		t.Fatalf("back to classic: %+v", joined)
	}
	if d, err := p.state.Describe("g"); err != nil || d.Phase != "CompletingRebalance" {
		t.Errorf("described as %+v, %v", d, err)
	}
	if o, ok := p.state.Committed("g", "tickets", 0); !ok || o.Offset != 7 {
		t.Errorf("the offset is %+v, %v", o, ok)
	}
}

// sync is the leader's.
func (p *table) sync(member string, generation int32) {
	p.t.Helper()
	p.token++
	out := p.state.Sync(p.now, Sync{
		To: p.token, Group: "g", Member: member, Generation: generation,
		Assignments: map[string][]byte{member: []byte("all")},
	})
	p.keep(out)
	if a := p.tokens[p.token]; a.Err != nil {
		p.t.Fatal(a.Err)
	}
}

// A member that is not heard of is out by its timer, also one whose coordinator is new; its offsets
// go after their time, and the group with them.
func TestConsumersAreHeardOfOrOut(t *testing.T) {
	config := Config{ConsumerSession: 20 * time.Second, Retention: time.Hour}
	p := newTable(t, config)
	if _, err := p.beat("a", 0); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		p.pass(15 * time.Second)
		if a, err := p.beat("a", 1); err != nil || a.Interval != 5*time.Second {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	p.wantErr("commit", p.commitAs("a", 1, false), nil)
	p.again(config)
	p.do(p.state.Fire(p.now, TimerKey{"g", "a"})) // too early, for nothing
	if d, err := p.state.DescribeConsumer("g"); err != nil || d.State != "Stable" {
		t.Fatalf("%+v, %v", d, err)
	}
	p.pass(21 * time.Second)
	d, err := p.state.DescribeConsumer("g")
	if err != nil || d.State != "Empty" || len(p.timers) != 0 {
		t.Errorf("%+v, %v; timers %v", d, err, p.timers)
	}
	_, err = p.beat("a", 1)
	p.wantErr("heartbeat", err, consumer.ErrUnknownMember)
	p.now = p.now.Add(2 * time.Hour)
	out, _ := p.state.Expire(p.now, 100)
	p.keep(out)
	if p.state.Groups() != 0 || p.state.Offsets() != 0 {
		t.Errorf("left: %+v", p.state.List())
	}
}

// An admin takes static members out by their instances; by the classic protocol consumers do not
// leave.
func TestAdminRemovesAnInstance(t *testing.T) {
	p := newTable(t, Config{})
	instance := "i"
	h := &consumer.Heartbeat{
		Group: "g", Member: "a", Instance: &instance, Rebalance: time.Minute,
		Topics: []string{"tickets"}, Owned: assignor.Assignment{},
	}
	_, out, err := p.state.ConsumerHeartbeat(p.now, h, shown)
	if p.keep(out); err != nil {
		t.Fatal(err)
	}
	errs, out := p.state.Leave(p.now, "g",
		[]Leaver{{Member: "a"}, {Instance: "j"}, {Instance: "i"}})
	p.keep(out)
	p.wantErr("by the member's id", errs[0], ErrUnknownMember)
	p.wantErr("of no instance", errs[1], consumer.ErrUnknownMember)
	p.wantErr("of the instance", errs[2], nil)
	if list := p.state.List(); list[0].Phase != "Empty" {
		t.Errorf("listed as %+v", list)
	}
	out, err = p.state.Delete("g")
	if p.keep(out); err != nil || p.state.Groups() != 0 {
		t.Errorf("%v; left: %+v", err, p.state.List())
	}
	counts := map[string]int{}
	if p.state.CountPhases(counts); len(counts) != 0 {
		t.Errorf("counted %v", counts)
	}
}

// A failover in the middle of a change of protocol finds a group of one kind, whichever, with its
// offsets.
func TestChangeOfProtocolIsCutShort(t *testing.T) {
	p := newTable(t, Config{InitialDelay: -1})
	p.wantErr("commit", p.commitAs("", -1, false), nil)
	if _, err := p.beat("a", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := p.beat("a", consumer.EpochLeave); err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(p.log)
	p.token++
	out := p.state.Join(p.now, Join{
		To: p.token, Group: "g", NewMember: "m", Session: 10 * time.Second,
		ProtocolType: "consumer", Protocols: []Protocol{{Name: "range"}},
	})
	if !out.VolatileChanged || len(out.Records) < 2 {
		t.Fatalf("a join that changes the protocol: %+v", out)
	}
	for n := range len(out.Records) + 1 {
		p.log = append(slices.Clone(before), out.Records[:n]...)
		p.again(Config{InitialDelay: -1})
		if o, ok := p.state.Committed("g", "tickets", 0); !ok || o.Offset != 7 {
			t.Errorf("%d records: the offset is %+v, %v", n, o, ok)
		}
		if list := p.state.List(); len(list) != 1 || list[0].Phase != "Empty" ||
			list[0].Consumer != (n < len(out.Records)) {
			t.Errorf("%d records: listed as %+v", n, list)
		}
		if a, err := p.beat("b", 0); err != nil || a.Assignment.Len() != 4 {
			t.Errorf("%d records: b joins: %+v, %v", n, a, err)
		}
	}
}
