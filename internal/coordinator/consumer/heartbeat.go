package consumer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// Heartbeat is a member's request. If a field is nil, or Rebalance is negative, the value that the
// member last sent still applies.
type Heartbeat struct {
	Group, Member string
	Epoch         int32 // epoch of the member, or EpochJoin, EpochLeave or EpochLeaveStatic
	// Instance is the instance id, which a static member sends in each heartbeat.
	Instance, Rack       *string
	ClientID, ClientHost string
	Rebalance            time.Duration // time limit for revoking partitions
	Topics               []string      // topics to which the member subscribes by name
	// Expression selects further topics to which the member subscribes; "" if there is none.
	Expression *string
	Assignor   *string
	Owned      assignor.Assignment // partitions that the member owns
}

// Answer is the response to a Heartbeat.
type Answer struct {
	Epoch    int32
	Interval time.Duration // time until the member's next heartbeat
	// Assignment contains the partitions that the member may consume. The member must revoke all other
	// partitions. If Assignment is nil, the member's partitions have not changed.
	Assignment assignor.Assignment
}

// Check returns an error if the heartbeat is invalid for every group.
func (h *Heartbeat) Check() error {
	empty := func(text *string) bool { return text != nil && *text == "" }
	fault := ""
	switch {
	case h.Group == "":
		fault = "no group id"
	case h.Member == "":
		fault = "no member id"
	case empty(h.Instance):
		fault = "empty instance id"
	case empty(h.Rack):
		fault = "empty rack id"
	case h.Epoch < EpochLeaveStatic:
		fault = "member epoch below -2"
	case h.Epoch == EpochLeaveStatic && h.Instance == nil:
		fault = "leaving with epoch -2 requires an instance id"
	case h.Epoch != EpochJoin:
	case h.Rebalance < 0:
		fault = "a join requires a rebalance timeout"
	case h.Owned == nil || len(h.Owned) > 0:
		fault = "a join requires an empty list of owned partitions"
	case h.Topics == nil && h.Expression == nil:
		fault = "a join requires a subscription"
	}
	if fault != "" {
		return fmt.Errorf("%w: %s", ErrInvalid, fault)
	}
	if h.Assignor != nil && *h.Assignor != "" && assignor.ByName(*h.Assignor) == nil {
		return fmt.Errorf("%w %q: use one of %v", ErrUnsupportedAssignor, *h.Assignor,
			assignor.Names())
	}
	return nil
}

// isFull reports whether the heartbeat sets all fields. A member sends such a heartbeat if it has
// missed an answer.
func (h *Heartbeat) isFull() bool {
	return h.Rebalance >= 0 && (h.Topics != nil || h.Expression != nil) && h.Owned != nil
}

// transition computes the changes that one heartbeat makes to a group. The fields from member on
// describe the new state, which records stores.
type transition struct {
	g        *Group
	h        *Heartbeat
	topics   *Topics
	now      time.Time
	interval time.Duration // value of Config.Assignment
	member   Member        // sender of the heartbeat, in its state after the heartbeat
	isNew    bool          // true if the member is not in g and replaces no static member of g
	replaces string        // id of the static member that the sender replaces; "" if there is none

	// resolved contains changed results of expressions. An element is nil if the expression is no
	// longer used.
	resolved               map[string]*Resolved
	epoch, assignmentEpoch int32
	hash                   int64
	targets                map[string]assignor.Assignment // changed targets, by member id
}

// Heartbeat handles a heartbeat of a member that joins or stays in the group. It returns the
// records that change the group. Only the member's session and the compiled expressions change at
// once.
func (g *Group) Heartbeat(now time.Time, h *Heartbeat, topics *Topics, c Config) (Answer, []Record,
	error) {
	t := &transition{
		g: g, h: h, topics: topics, now: now, interval: c.Assignment,
		resolved: map[string]*Resolved{}, epoch: g.epoch, assignmentEpoch: g.assignmentEpoch,
		hash: g.hash, targets: map[string]assignor.Assignment{},
	}
	if err := t.findMember(c.MembersMax); err != nil {
		return Answer{}, nil, err
	}
	before := t.member
	if err := t.updateProfile(); err != nil {
		return Answer{}, nil, err
	}
	if !t.unchanged(&before) {
		t.resolveExpressions()
		t.updateEpoch(&before)
	}
	t.updateTargets()
	t.member.Current = g.reconcile(&t.member, t.target(), t.assignmentEpoch, t)
	records := t.records(&before)
	for _, r := range records {
		if len(r.Value) > c.RecordBytesMax {
			return Answer{}, nil, ErrTooLarge
		}
	}
	if m := g.members[h.Member]; m != nil {
		m.deadline = now.Add(c.Session)
	}
	if len(records) == 0 {
		g.currentFor = topics
	}
	answer := Answer{Epoch: t.member.Epoch, Interval: c.Interval}
	if h.Epoch == EpochJoin || h.isFull() ||
		!maps.EqualFunc(before.Assigned, t.member.Assigned, sameKeys) {
		answer.Assignment = t.member.Assigned.assignment()
	}
	return answer, records, nil
}

// sameKeys reports whether a and b contain the same partitions.
func sameKeys(a, b map[int32]int32) bool {
	for partition := range a {
		if _, has := b[partition]; !has {
			return false
		}
	}
	return len(a) == len(b)
}

func (o Owned) assignment() assignor.Assignment {
	a := make(assignor.Assignment, len(o))
	for topic, partitions := range o {
		a[topic] = slices.Sorted(maps.Keys(partitions))
	}
	return a
}

// findMember sets t.member to the sender of the heartbeat, or to a new member if the heartbeat
// joins the group.
func (t *transition) findMember(membersMax int) error {
	current := t.g.members[t.h.Member]
	if t.h.Instance != nil {
		holder := t.g.members[t.g.instances[*t.h.Instance]]
		switch {
		case holder == nil && t.h.Epoch != EpochJoin:
			return ErrUnknownMember
		case holder == nil || holder.ID == t.h.Member:
		case t.h.Epoch != EpochJoin:
			return ErrFencedInstance
		case holder.Epoch != EpochLeaveStatic:
			return ErrUnreleasedInstance
		default: // a restarted process takes over the membership of holder
			t.replaces = holder.ID
			t.member = *holder
			t.member.ID = t.h.Member
			t.returnStatic()
			return nil
		}
	}
	if current == nil {
		if t.h.Epoch != EpochJoin {
			return ErrUnknownMember
		}
		if len(t.g.members) >= membersMax {
			return ErrFull
		}
		t.isNew, t.member = true, Member{ID: t.h.Member}
		return nil
	}
	t.member = *current
	if t.member.Epoch == EpochLeaveStatic && t.h.Epoch == EpochJoin {
		t.returnStatic()
	}
	return t.checkEpoch()
}

// returnStatic resets the epoch and the phase of a static member that returns after it has left
// temporarily. The member keeps its assigned partitions.
func (t *transition) returnStatic() {
	t.member.Epoch, t.member.Previous, t.member.Phase, t.member.Revoking = EpochJoin, EpochJoin,
		Stable, nil
}

// checkEpoch returns an error if the heartbeat's epoch differs from the stored member's epoch.
// There are two exceptions. A member that sends its previous epoch may have missed an answer; it is
// accepted if it owns only partitions that are assigned to it. A member that joins again
// (EpochJoin) is always accepted, because it owns no partitions.
func (t *transition) checkEpoch() error {
	m := &t.member
	switch {
	case t.h.Epoch == EpochJoin:
		return nil
	// Other phases are stored only by a newer version.
	case m.Phase != Stable && m.Phase != Unrevoked && m.Phase != Unreleased:
		return ErrFencedEpoch
	case t.h.Epoch == m.Epoch:
		return nil
	case t.h.Epoch > m.Epoch || t.h.Epoch != m.Previous || t.h.Owned == nil:
		return ErrFencedEpoch
	}
	for topic, partitions := range t.h.Owned {
		for _, partition := range partitions {
			if _, assigned := m.Assigned[topic][partition]; !assigned {
				return ErrFencedEpoch
			}
		}
	}
	return nil
}

// unchanged reports whether neither the heartbeat nor the topics change the group epoch. This is
// the usual case; unchanged detects it without iterating over the other members.
func (t *transition) unchanged(before *Member) bool {
	return !t.isNew && t.replaces == "" && t.g.stored && t.g.currentFor == t.topics &&
		t.g.targets[t.member.ID] != nil &&
		t.member.Profile.equal(&before.Profile)
}

// updateProfile copies the fields of the heartbeat to the member.
func (t *transition) updateProfile() error {
	p := &t.member.Profile
	p.ClientID, p.ClientHost = t.h.ClientID, t.h.ClientHost
	set(&p.Instance, t.h.Instance)
	set(&p.Rack, t.h.Rack)
	set(&p.Assignor, t.h.Assignor)
	set(&p.Expression, t.h.Expression)
	if t.h.Topics != nil {
		p.Topics = distinct(slices.Clone(t.h.Topics))
	}
	if t.h.Rebalance >= 0 {
		p.Rebalance = t.h.Rebalance
	}
	if t.h.Expression != nil && *t.h.Expression != "" {
		return t.g.compile(*t.h.Expression)
	}
	return nil
}

func set(to, from *string) {
	if from != nil {
		*to = *from
	}
}

func (p *Profile) equal(o *Profile) bool {
	return p.Instance == o.Instance && p.Rack == o.Rack && p.ClientID == o.ClientID &&
		p.ClientHost == o.ClientHost &&
		p.Expression == o.Expression && p.Rebalance == o.Rebalance && p.Assignor == o.Assignor &&
		slices.Equal(p.Topics, o.Topics)
}

// eachMember calls f for each member of the group after the heartbeat: with t.member in its new
// state, and without a member that t.member replaces.
func (t *transition) eachMember(f func(m *Member)) {
	for id, m := range t.g.members {
		if id != t.member.ID && id != t.replaces {
			f(m)
		}
	}
	f(&t.member)
}

// records returns the records that store the transition, in the order required by the package
// comment (doc.go).
func (t *transition) records(before *Member) (records []Record) {
	g, id := t.g, t.member.ID
	store := func(kind int16, member string, value []byte) {
		records = append(records, Record{Key{kind, g.ID, member}.append(), value})
	}
	if t.epoch != g.epoch || t.hash != g.hash || !g.stored {
		store(kindGroup, "", groupValue{t.epoch, t.hash}.append())
	}
	for _, pattern := range slices.Sorted(maps.Keys(t.resolved)) {
		if r := t.resolved[pattern]; r != nil {
			store(kindExpression, pattern, r.append())
		} else {
			store(kindExpression, pattern, nil)
		}
	}
	joins := t.isNew || t.replaces != ""
	if joins || !t.member.Profile.equal(&before.Profile) {
		store(kindMember, id, t.member.Profile.append())
	}
	for _, member := range slices.Sorted(maps.Keys(t.targets)) {
		store(kindTarget, member, appendTarget(t.targets[member]))
	}
	if t.assignmentEpoch != g.assignmentEpoch {
		store(kindAssignment, "", assignmentValue{t.assignmentEpoch, t.now.UnixMilli()}.append())
	}
	if t.replaces != "" {
		store(kindCurrent, t.replaces, nil)
	}
	if joins || !t.member.Current.equal(&before.Current) {
		store(kindCurrent, id, t.member.Current.append())
	}
	if t.replaces != "" {
		store(kindTarget, t.replaces, nil)
		store(kindMember, t.replaces, nil)
	}
	return records
}

func (c *Current) equal(o *Current) bool {
	same := func(a, b Owned) bool {
		return maps.EqualFunc(a, b,
			maps.Equal[map[int32]int32, map[int32]int32])
	}
	return c.Epoch == o.Epoch && c.Previous == o.Previous && c.Phase == o.Phase &&
		same(c.Assigned, o.Assigned) && same(c.Revoking, o.Revoking)
}
