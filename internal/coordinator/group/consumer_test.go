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

// topics contains the topics of a cluster whose only topic is tickets.
var topics = &consumer.Topics{
	ByName: func(name string) (consumer.Topic, bool) { return tickets, name == tickets.Name },
	All:    slices.Values([]consumer.Topic{tickets}),
}

// heartbeat sends a heartbeat of the consumer protocol to group g. With epoch 0, the member joins.
func (p *fixture) heartbeat(member string, epoch int32) (consumer.Answer, error) {
	p.t.Helper()
	h := &consumer.Heartbeat{Group: "g", Member: member, Epoch: epoch, Rebalance: -1}
	if epoch == consumer.EpochJoin {
		h.Rebalance, h.Topics, h.Owned = time.Minute, []string{"tickets"}, assignor.Assignment{}
	}
	a, out, err := p.state.ConsumerHeartbeat(p.now, h, topics)
	p.applyLogged(out)
	return a, err
}

// applyLogged applies an output, and appends its records to p.log, which reload replays.
func (p *fixture) applyLogged(out Output) {
	p.t.Helper()
	p.log = append(p.log, out.Records...)
	p.apply(out)
}

// reload replaces the State with a new one that it loads from p.log.
func (p *fixture) reload(config Config) {
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

func (p *fixture) commitAs(member string, epoch int32, older bool) error {
	p.t.Helper()
	errs, out, err := p.state.Commit(p.now,
		Commit{Group: "g", Member: member, Generation: epoch, NoEpochs: older,
			Offsets: []CommitOffset{
				{Topic: "tickets", Offset: Offset{Offset: 7, TopicID: tickets.ID, LeaderEpoch: -1,
					ExpireMs: -1}},
			}})
	p.applyLogged(out)
	if err == nil {
		err = errs[0]
	}
	return err
}

// wantErr fails the test unless err is the expected error want.
func (p *fixture) wantErr(what string, err, want error) {
	p.t.Helper()
	if !errors.Is(err, want) {
		p.t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// TestOnlyEmptyGroupsChangeTheirProtocol checks that a classic group with a member rejects a
// joining consumer. After the member has left, a consumer can join: the group must use the consumer
// protocol and keep its offset, even after a reload. It must then reject classic members until the
// consumer has also left.
func TestOnlyEmptyGroupsChangeTheirProtocol(t *testing.T) {
	p := newFixture(t, Config{InitialDelay: -1})
	_, err := p.heartbeat("a", 1)
	p.wantErr("a heartbeat to an unknown group", err, ErrNotFound)
	classic := p.join("range")
	p.advance(time.Millisecond)
	_, err = p.heartbeat("a", 0)
	p.wantErr("a consumer join to a classic group", err, ErrNotFound)
	p.sync("1", p.answers[classic].Result.Joined.Generation)
	_, out := p.state.Leave(p.now, "g", []Leaver{{Member: "1"}})
	p.applyLogged(out)
	p.wantErr("an admin's commit", p.commitAs("", -1, false), nil)

	if a, err := p.heartbeat("a", 0); err != nil || a.Epoch != 1 || a.Assignment.Len() != 4 {
		t.Fatalf("consumer join: %+v, %v", a, err)
	}
	for _, loaded := range []bool{false, true} {
		if loaded {
			p.reload(Config{InitialDelay: -1})
		}
		if list := p.state.List(); len(list) != 1 || !list[0].Consumer ||
			list[0].Phase != "Stable" || list[0].ProtocolType != "consumer" {
			t.Errorf("List: %+v", list)
		}
		_, err = p.state.Describe("g")
		p.wantErr("DescribeGroups", err, ErrNotFound)
		if d, err := p.state.DescribeConsumer("g"); err != nil || len(d.Members) != 1 {
			t.Errorf("describe: %+v, %v", d, err)
		}
		if o, ok := p.state.Committed("g", "tickets", 0); !ok || o.Offset != 7 {
			t.Errorf("the offset is %+v, %v", o, ok)
		}
		p.wantErr("classic join", p.answers[p.join("range")].Err, ErrInconsistentProtocol)
		p.wantErr("classic heartbeat", p.state.Heartbeat(p.now, "g", "a", "", 1), ErrUnknownMember)
		p.wantErr("commit", p.commitAs("a", 1, false), nil)
		p.wantErr("commit by a version without epochs", p.commitAs("a", 1, true), ErrOldProtocol)
		p.wantErr("commit without membership", p.commitAs("", -1, false), ErrUnknownMember)
		p.wantErr("commit in another epoch", p.commitAs("a", 2, false), consumer.ErrStaleEpoch)
		p.wantErr("fetch in another epoch", p.state.CheckFetch("g", Reader{"a", 2}),
			consumer.ErrStaleEpoch)
		p.wantErr("fetch", p.state.CheckFetch("g", Reader{"", -1}), nil)
		_, err = p.state.Delete("g")
		p.wantErr("delete", err, ErrNotEmpty)
		errs, _, err := p.state.DeleteOffsets("g", []TopicPartition{{Topic: "tickets"}})
		if err != nil || !errors.Is(errs[0], ErrSubscribed) {
			t.Errorf("delete offsets: %v, %v", errs, err)
		}
	}
	if _, err := p.heartbeat("a", consumer.EpochLeave); err != nil {
		t.Fatal(err)
	}
	back := p.join("range")
	p.advance(time.Millisecond)
	if joined := p.answers[back]; joined.Err != nil || joined.Result.Joined.Generation != 1 {
		t.Fatalf("classic join after the consumer left: %+v", joined)
	}
	if d, err := p.state.Describe("g"); err != nil || d.Phase != "CompletingRebalance" {
		t.Errorf("describe: %+v, %v", d, err)
	}
	if o, ok := p.state.Committed("g", "tickets", 0); !ok || o.Offset != 7 {
		t.Errorf("the offset is %+v, %v", o, ok)
	}
}

// sync sends a Sync from the leader, which is the group's only member.
func (p *fixture) sync(member string, generation int32) {
	p.t.Helper()
	p.token++
	out := p.state.Sync(p.now, Sync{
		To: p.token, Group: "g", Member: member, Generation: generation,
		Assignments: map[string][]byte{member: []byte("all")},
	})
	p.applyLogged(out)
	if a := p.answers[p.token]; a.Err != nil {
		p.t.Fatal(a.Err)
	}
}

// TestConsumerSessionExpires checks that the session timer removes a member that stops sending
// heartbeats, also after a reload, which starts its session again. Then the group's offset must
// expire, and the group must be deleted with it.
func TestConsumerSessionExpires(t *testing.T) {
	config := Config{ConsumerSession: 20 * time.Second, Retention: time.Hour}
	p := newFixture(t, config)
	if _, err := p.heartbeat("a", 0); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		p.advance(15 * time.Second)
		if a, err := p.heartbeat("a", 1); err != nil || a.Interval != 5*time.Second {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	p.wantErr("commit", p.commitAs("a", 1, false), nil)
	p.reload(config)
	p.apply(p.state.Fire(p.now, TimerKey{"g", "a"})) // too early, so it has no effect
	if d, err := p.state.DescribeConsumer("g"); err != nil || d.State != "Stable" {
		t.Fatalf("%+v, %v", d, err)
	}
	p.advance(21 * time.Second)
	d, err := p.state.DescribeConsumer("g")
	if err != nil || d.State != "Empty" || len(p.timers) != 0 {
		t.Errorf("%+v, %v; timers %v", d, err, p.timers)
	}
	_, err = p.heartbeat("a", 1)
	p.wantErr("heartbeat", err, consumer.ErrUnknownMember)
	p.now = p.now.Add(2 * time.Hour)
	out, _ := p.state.Expire(p.now, 100)
	p.applyLogged(out)
	if p.state.Groups() != 0 || p.state.Offsets() != 0 {
		t.Errorf("groups remain: %+v", p.state.List())
	}
}

// TestAssignmentIntervalOfOneGroup checks that, by default, a second member that joins immediately
// after the first waits for the next assignment. A group whose interval is 0 must assign at once.
func TestAssignmentIntervalOfOneGroup(t *testing.T) {
	for override, want := range map[time.Duration]int32{0: 1, 10 * time.Second: 1, -1: 2} {
		p := newFixture(t, Config{Overrides: map[string]Override{
			"g": {ConsumerAssignment: override}, "other": {ConsumerAssignment: 1}}})
		for _, id := range []string{"a", "b"} {
			if _, err := p.heartbeat(id, 0); err != nil {
				t.Fatal(err)
			}
		}
		if d, err := p.state.DescribeConsumer("g"); err != nil || d.AssignmentEpoch != want {
			t.Errorf("override %v: assignment epoch %d, error %v, want %d", override,
				d.AssignmentEpoch, err, want)
		}
		p.advance(time.Second)
		if _, err := p.heartbeat("a", 1); err != nil {
			t.Fatal(err)
		}
		if d, _ := p.state.DescribeConsumer("g"); (d.AssignmentEpoch == 2) !=
			(override < 2*time.Second) {
			t.Errorf("override %v: after 1 s the assignment epoch is %d", override,
				d.AssignmentEpoch)
		}
	}
}

// TestOverridesApplyToOneGroup checks that a group with its own settings uses them after each
// member's next heartbeat, and after a reload. Other groups must use the common settings.
func TestOverridesApplyToOneGroup(t *testing.T) {
	config := Config{Overrides: map[string]Override{
		"other": {ConsumerSession: time.Second, ConsumerInterval: time.Millisecond}}}
	p := newFixture(t, config)
	if a, err := p.heartbeat("a", 0); err != nil || a.Interval != 5*time.Second {
		t.Fatalf("%+v, %v", a, err)
	}
	config.Overrides = map[string]Override{
		"g": {ConsumerSession: 60 * time.Second, ConsumerInterval: 15 * time.Second}}
	p.state.Configure(config)
	if a, err := p.heartbeat("a", 1); err != nil || a.Interval != 15*time.Second {
		t.Fatalf("after the change: %+v, %v", a, err)
	}
	p.advance(59 * time.Second)
	if _, err := p.heartbeat("a", 1); err != nil {
		t.Fatalf("59 s after a heartbeat: %v", err)
	}
	p.reload(config)
	p.advance(59 * time.Second)
	if d, err := p.state.DescribeConsumer("g"); err != nil || d.State != "Stable" {
		t.Fatalf("59 s after a reload: %+v, %v", d, err)
	}
	p.advance(2 * time.Second)
	if d, err := p.state.DescribeConsumer("g"); err != nil || d.State != "Empty" {
		t.Errorf("61 s after a reload: %+v, %v", d, err)
	}
	config.Overrides = map[string]Override{"g": {ConsumerInterval: 7 * time.Second}}
	p.state.Configure(config)
	if a, err := p.heartbeat("a", 0); err != nil || a.Interval != 7*time.Second {
		t.Errorf("with one override only: %+v, %v", a, err)
	}
	p.advance(46 * time.Second)
	if d, err := p.state.DescribeConsumer("g"); err != nil || d.State != "Empty" {
		t.Errorf("46 s after a heartbeat with the session timeout of all groups: %+v, %v", d, err)
	}
}

// TestLeaveGroupRemovesConsumersByInstance checks that LeaveGroup removes a static
// consumer-protocol member by its instance id, and rejects a member id.
func TestLeaveGroupRemovesConsumersByInstance(t *testing.T) {
	p := newFixture(t, Config{})
	instance := "i"
	h := &consumer.Heartbeat{
		Group: "g", Member: "a", Instance: &instance, Rebalance: time.Minute,
		Topics: []string{"tickets"}, Owned: assignor.Assignment{},
	}
	_, out, err := p.state.ConsumerHeartbeat(p.now, h, topics)
	if p.applyLogged(out); err != nil {
		t.Fatal(err)
	}
	errs, out := p.state.Leave(p.now, "g",
		[]Leaver{{Member: "a"}, {Instance: "j"}, {Instance: "i"}})
	p.applyLogged(out)
	p.wantErr("leave by member id", errs[0], ErrUnknownMember)
	p.wantErr("leave of an unknown instance", errs[1], consumer.ErrUnknownMember)
	p.wantErr("leave of the instance", errs[2], nil)
	if list := p.state.List(); list[0].Phase != "Empty" {
		t.Errorf("List: %+v", list)
	}
	out, err = p.state.Delete("g")
	if p.applyLogged(out); err != nil || p.state.Groups() != 0 {
		t.Errorf("delete: %v; groups remain: %+v", err, p.state.List())
	}
	counts := map[string]int{}
	if p.state.CountPhases(counts); len(counts) != 0 {
		t.Errorf("groups by phase: %v, want none", counts)
	}
}

// TestFailoverDuringProtocolChange checks that an empty consumer-protocol group that a classic
// member joins is consistent if the coordinator fails over after any of the records that the join
// stores. The group must then use one of the two protocols, and still have its offset.
func TestFailoverDuringProtocolChange(t *testing.T) {
	config := Config{InitialDelay: -1, ConsumerAssignment: -1}
	p := newFixture(t, config)
	p.wantErr("commit", p.commitAs("", -1, false), nil)
	if _, err := p.heartbeat("a", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := p.heartbeat("a", consumer.EpochLeave); err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(p.log)
	p.token++
	out := p.state.Join(p.now, Join{
		To: p.token, Group: "g", NewMember: "m", Session: 10 * time.Second,
		ProtocolType: "consumer", Protocols: []Protocol{{Name: "range"}},
	})
	if !out.VolatileChanged || len(out.Records) < 2 {
		t.Fatalf("output of a join that changes the protocol: %+v", out)
	}
	for n := range len(out.Records) + 1 {
		p.log = append(slices.Clone(before), out.Records[:n]...)
		p.reload(config)
		if o, ok := p.state.Committed("g", "tickets", 0); !ok || o.Offset != 7 {
			t.Errorf("%d records: the offset is %+v, %v", n, o, ok)
		}
		if list := p.state.List(); len(list) != 1 || list[0].Phase != "Empty" ||
			list[0].Consumer != (n < len(out.Records)) {
			t.Errorf("%d records: List: %+v", n, list)
		}
		if a, err := p.heartbeat("b", 0); err != nil || a.Assignment.Len() != 4 {
			t.Errorf("%d records: join of b: %+v, %v", n, a, err)
		}
	}
}
