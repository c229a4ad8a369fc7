package consumer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// Heartbeat is what a member says. What is nil, or Rebalance below 0, has not changed since it last
// said it.
type Heartbeat struct {
	Group, Member        string
	Epoch                int32   // that it is in; or EpochJoin, EpochLeave, EpochLeaveStatic
	Instance, Rack       *string // Instance: of each heartbeat of a static member
	ClientID, ClientHost string
	Rebalance            time.Duration // how long it takes at most to give up partitions
	Topics               []string      // that it subscribes to by name
	Expression           *string       // "": none any more
	Assignor             *string
	Owned                assignor.Assignment // partitions it has; nil: as before
}

// Answer is what it is told.
type Answer struct {
	Epoch    int32
	Interval time.Duration // until its next heartbeat
	// Assignment is the partitions it may use; nil: as before. Those that it has and that are not
	// in it, it is to give up.
	Assignment assignor.Assignment
}

// Check refuses a heartbeat that makes no sense, whatever the group.
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
		fault = "only a member with an instance id may leave for a while"
	case h.Epoch != EpochJoin:
	case h.Rebalance < 0:
		fault = "a member that joins has to tell its rebalance timeout"
	case h.Owned == nil || len(h.Owned) > 0:
		fault = "a member that joins has no partitions, and says so"
	case h.Topics == nil && h.Expression == nil:
		fault = "a member that joins has to tell what it subscribes to"
	}
	if fault != "" {
		return fmt.Errorf("%w: %s", ErrInvalid, fault)
	}
	if h.Assignor != nil && *h.Assignor != "" && assignor.ByName(*h.Assignor) == nil {
		return fmt.Errorf("%w %q; there are %v", ErrUnsupportedAssignor, *h.Assignor,
			assignor.Names())
	}
	return nil
}

// complete tells whether it says everything, as one does who has lost the last answer.
func (h *Heartbeat) complete() bool {
	return h.Rebalance >= 0 && (h.Topics != nil || h.Expression != nil) && h.Owned != nil
}

// turn is one heartbeat: what is to be stored, over what is.
type turn struct {
	g       *Group
	h       *Heartbeat
	topics  *Topics
	now     time.Time
	member  Member // as it will be
	isNew   bool   // it is not in g, and takes nobody's place
	instead string // the id of the static member whose place it takes; ""

	// expressions that changed; nil: nobody has it any more
	resolved               map[string]*Resolved
	epoch, assignmentEpoch int32
	hash                   int64
	targets                map[string]assignor.Assignment // that changed
}

// Heartbeat answers one of those that are not about leaving. Nothing changes before the records are
// replayed, but for the session.
func (g *Group) Heartbeat(now time.Time, h *Heartbeat, topics *Topics, c Config) (Answer, []Record,
	error) {
	t := &turn{
		g: g, h: h, topics: topics, now: now, resolved: map[string]*Resolved{}, epoch: g.epoch,
		assignmentEpoch: g.assignmentEpoch,
		hash:            g.hash, targets: map[string]assignor.Assignment{},
	}
	if err := t.find(c.MembersMax); err != nil {
		return Answer{}, nil, err
	}
	before := t.member
	if err := t.listen(); err != nil {
		return Answer{}, nil, err
	}
	if !t.quiet(&before) {
		t.resolve()
		t.advance(&before)
	}
	t.assign()
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
		g.seen = topics
	}
	answer := Answer{Epoch: t.member.Epoch, Interval: c.Interval}
	if h.Epoch == EpochJoin || h.complete() ||
		!maps.EqualFunc(before.Assigned, t.member.Assigned, sameKeys) {
		answer.Assignment = t.member.Assigned.assignment()
	}
	return answer, records, nil
}

// sameKeys tells whether two lists of partitions are the same, whatever the epochs.
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

// find finds the member, or makes one of who joins.
func (t *turn) find(membersMax int) error {
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
		default: // it is the same process, started again
			t.instead = holder.ID
			t.member = *holder
			t.member.ID = t.h.Member
			t.comeBack()
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
		t.comeBack()
	}
	return t.checkEpoch()
}

// comeBack is of a static member that was away: it begins anew, and what it was assigned is its
// still.
func (t *turn) comeBack() {
	t.member.Epoch, t.member.Previous, t.member.Phase, t.member.Revoking = EpochJoin, EpochJoin,
		Stable, nil
}

// checkEpoch refuses who is not in the epoch that we know it to be in. One that is in the one
// before may have missed the answer: then it has nothing that is not its. One that joins anew has
// nothing at all.
func (t *turn) checkEpoch() error {
	m := &t.member
	switch {
	case t.h.Epoch == EpochJoin:
		return nil
	// of a version of the format that we do not know
	case m.Phase != Stable && m.Phase != Unrevoked && m.Phase != Unreleased:
		return ErrFencedEpoch
	case t.h.Epoch == m.Epoch:
		return nil
	case t.h.Epoch > m.Epoch || t.h.Epoch != m.Previous || t.h.Owned == nil:
		return ErrFencedEpoch
	}
	for topic, partitions := range t.h.Owned {
		for _, partition := range partitions {
			if _, its := m.Assigned[topic][partition]; !its {
				return ErrFencedEpoch
			}
		}
	}
	return nil
}

// quiet tells whether there is nothing new for the group: almost every heartbeat is so, and looks
// at nobody else then.
func (t *turn) quiet(before *Member) bool {
	return !t.isNew && t.instead == "" && t.g.kept && t.g.seen == t.topics &&
		t.g.targets[t.member.ID] != nil &&
		t.member.Profile.equal(&before.Profile)
}

// listen takes in what the member says of itself.
func (t *turn) listen() error {
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

// equal tells whether two members say the same of themselves.
func (p *Profile) equal(o *Profile) bool {
	return p.Instance == o.Instance && p.Rack == o.Rack && p.ClientID == o.ClientID &&
		p.ClientHost == o.ClientHost &&
		p.Expression == o.Expression && p.Rebalance == o.Rebalance && p.Assignor == o.Assignor &&
		slices.Equal(p.Topics, o.Topics)
}

// all calls f for each member as it will be.
func (t *turn) all(f func(m *Member)) {
	for id, m := range t.g.members {
		if id != t.member.ID && id != t.instead {
			f(m)
		}
	}
	f(&t.member)
}

// records are what the turn changed, in the order that doc.go asks for.
func (t *turn) records(before *Member) (records []Record) {
	g, id := t.g, t.member.ID
	store := func(kind int16, of string, value []byte) {
		records = append(records, Record{Key{kind, g.ID, of}.append(), value})
	}
	if t.epoch != g.epoch || t.hash != g.hash || !g.kept {
		store(kindGroup, "", groupValue{t.epoch, t.hash}.append())
	}
	for _, pattern := range slices.Sorted(maps.Keys(t.resolved)) {
		if r := t.resolved[pattern]; r != nil {
			store(kindExpression, pattern, r.append())
		} else {
			store(kindExpression, pattern, nil)
		}
	}
	comes := t.isNew || t.instead != ""
	if comes || !t.member.Profile.equal(&before.Profile) {
		store(kindMember, id, t.member.Profile.append())
	}
	for _, of := range slices.Sorted(maps.Keys(t.targets)) {
		store(kindTarget, of, appendTarget(t.targets[of]))
	}
	if t.assignmentEpoch != g.assignmentEpoch {
		store(kindAssignment, "", assignmentValue{t.assignmentEpoch, t.now.UnixMilli()}.append())
	}
	if t.instead != "" {
		store(kindCurrent, t.instead, nil)
	}
	if comes || !t.member.Current.equal(&before.Current) {
		store(kindCurrent, id, t.member.Current.append())
	}
	if t.instead != "" {
		store(kindTarget, t.instead, nil)
		store(kindMember, t.instead, nil)
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
