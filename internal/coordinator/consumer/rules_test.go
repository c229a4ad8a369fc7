package consumer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// newFaultlessWorld returns a world without faults. Its topic t0 has four partitions.
func newFaultlessWorld(t *testing.T) *world {
	w := newWorld(t, 1)
	w.faultless = true
	return w
}

func pointer(s string) *string { return &s }

func join(id string) *Heartbeat {
	return &Heartbeat{Group: "g", Member: id, Rebalance: time.Minute, Topics: []string{"t0"},
		Owned: assignor.Assignment{}}
}

func (w *world) mustHandle(h *Heartbeat) Answer {
	w.t.Helper()
	a, _, err := w.handle(h)
	if err != nil {
		w.t.Fatalf("%+v: %v", h, err)
	}
	w.check()
	return a
}

// heartbeat returns a heartbeat that changes no subscription. If owned is nil, the heartbeat does
// not list the owned partitions.
func heartbeat(id string, epoch int32, owned assignor.Assignment) *Heartbeat {
	return &Heartbeat{Group: "g", Member: id, Epoch: epoch, Rebalance: -1, Owned: owned}
}

func (w *world) t0(partitions ...int32) assignor.Assignment {
	if len(partitions) == 0 {
		return assignor.Assignment{}
	}
	return assignor.Assignment{w.topics["t0"].ID: partitions}
}

// TestPartitionsAreRevokedBeforeTheyAreAssigned runs the first example in KIP-848. Member a owns
// all four partitions, and b joins. Member b must get two partitions only after a has reported that
// it has revoked them.
func TestPartitionsAreRevokedBeforeTheyAreAssigned(t *testing.T) {
	w := newFaultlessWorld(t)
	all := w.t0(0, 1, 2, 3)
	if a := w.mustHandle(join("a")); a.Epoch != 1 || !a.Assignment.Equal(all) ||
		a.Interval != config.Interval {
		t.Fatalf("join of a: %+v", a)
	}
	if a := w.mustHandle(heartbeat("a", 1, all)); a.Epoch != 1 || a.Assignment != nil ||
		w.group.State() != "Stable" {
		t.Errorf("heartbeat of a: %+v in a group that is %s", a, w.group.State())
	}
	if b := w.mustHandle(join("b")); b.Epoch != 2 || b.Assignment == nil ||
		b.Assignment.Len() != 0 {
		t.Errorf("join of b: %+v", b)
	}
	half := w.t0(0, 1)
	// Member a still owns all partitions. It must revoke two, and b waits.
	for _, owned := range []assignor.Assignment{nil, all} {
		a := w.mustHandle(heartbeat("a", 1, owned))
		if a.Epoch != 1 || w.group.State() != "Reconciling" || owned == nil &&
			!a.Assignment.Equal(half) {
			t.Errorf("heartbeat of a: %+v in a group that is %s", a, w.group.State())
		}
		if b := w.mustHandle(heartbeat("b", 2, nil)); b.Assignment != nil {
			t.Errorf("heartbeat of b while a owns all: %+v", b)
		}
	}
	if a := w.mustHandle(heartbeat("a", 1, half)); a.Epoch != 2 || a.Assignment != nil {
		t.Errorf("heartbeat of a after the revocation: %+v", a)
	}
	if b := w.mustHandle(heartbeat("b", 2, nil)); b.Epoch != 2 || !b.Assignment.Equal(w.t0(2, 3)) ||
		w.group.State() != "Stable" {
		t.Errorf("heartbeat of b: %+v in a group that is %s", b, w.group.State())
	}
	d := w.group.Describe()
	if d.Epoch != 2 || d.AssignmentEpoch != 2 {
		t.Errorf("epochs %d and %d, want 2", d.Epoch, d.AssignmentEpoch)
	}
	if d.Assignor != "uniform" {
		t.Errorf("assignor %s, want uniform", d.Assignor)
	}
	if len(d.Members) != 2 || !d.Members[0].Target.Equal(half) {
		t.Errorf("members %+v, want two with half of the partitions", d.Members)
	}
}

// TestJoinsWithinTheIntervalCauseOneAssignment checks that three members that join within the
// interval cause only one further assignment (KIP-1263). The first member gets all partitions. The
// others join in the epoch of that assignment, without partitions, and neither their joins nor
// their heartbeats increment the group epoch further. The first heartbeat after the interval must
// compute one assignment for all members, even after a failover.
func TestJoinsWithinTheIntervalCauseOneAssignment(t *testing.T) {
	w := newFaultlessWorld(t)
	w.interval = 2 * time.Second
	if a := w.mustHandle(join("a")); a.Epoch != 1 || a.Assignment.Len() != 4 {
		t.Fatalf("join of a: %+v", a)
	}
	w.advanceTime(w.interval - time.Millisecond)
	for _, id := range []string{"b", "c"} {
		if m := w.mustHandle(join(id)); m.Epoch != 1 || m.Assignment == nil ||
			m.Assignment.Len() != 0 || m.Interval != config.Interval {
			t.Errorf("join of %s: %+v", id, m)
		}
	}
	for range 3 {
		if b := w.mustHandle(heartbeat("b", 1, nil)); b.Epoch != 1 || b.Assignment != nil {
			t.Errorf("heartbeat of b within the interval: %+v", b)
		}
	}
	if d := w.group.Describe(); d.State != "Assigning" || d.Epoch != 3 || d.AssignmentEpoch != 1 {
		t.Errorf("within the interval: %+v", d)
	}
	w.failover()
	if b := w.mustHandle(heartbeat("b", 1, nil)); b.Epoch != 1 {
		t.Errorf("heartbeat of b after a failover: %+v", b)
	}
	w.advanceTime(time.Millisecond)
	if a := w.mustHandle(heartbeat("a", 1, nil)); a.Assignment.Len() != 2 {
		t.Errorf("heartbeat of a after the interval: %+v", a)
	}
	if d := w.group.Describe(); d.State != "Reconciling" || d.Epoch != 3 || d.AssignmentEpoch != 3 {
		t.Errorf("after the interval: %+v", d)
	}
}

// TestClockSetBackDoesNotDelayAssignments checks that assignments are not delayed if a clock is set
// back, or if the clocks of two coordinators differ.
func TestClockSetBackDoesNotDelayAssignments(t *testing.T) {
	w := newFaultlessWorld(t)
	w.interval = time.Second
	w.mustHandle(join("a"))
	w.now = w.now.Add(-time.Hour)
	if c := w.mustHandle(join("b")); c.Epoch != 2 || w.group.assignmentEpoch != 2 {
		t.Errorf("join of b: %+v in assignment epoch %d", c, w.group.assignmentEpoch)
	}
}

// TestMemberThatDoesNotRevokeIsRemoved checks that a member that sends heartbeats, but does not
// revoke the partitions that b must get, is removed after its rebalance timeout, and that b then
// gets all partitions.
func TestMemberThatDoesNotRevokeIsRemoved(t *testing.T) {
	w := newFaultlessWorld(t)
	w.mustHandle(join("a"))
	w.mustHandle(join("b"))
	for range 4 {
		w.mustHandle(heartbeat("a", 1, nil))
		w.mustHandle(heartbeat("b", 2, nil))
		w.advanceTime(15 * time.Second)
	}
	if _, _, err := w.handle(heartbeat("a", 1, nil)); !errors.Is(err, ErrUnknownMember) {
		t.Errorf("heartbeat of a: %v", err)
	}
	if b := w.mustHandle(heartbeat("b", 2, nil)); !b.Assignment.Equal(w.t0(0, 1, 2, 3)) {
		t.Errorf("heartbeat of b: %+v", b)
	}
	w.advanceTime(config.Session) // the session of b expires
	if w.group.State() != "Empty" || w.group.Unused() {
		t.Errorf("the group is %s", w.group.State())
	}
}

func TestEpochFencing(t *testing.T) {
	w := newFaultlessWorld(t)
	w.mustHandle(join("a"))
	w.mustHandle(join("b"))
	w.mustHandle(heartbeat("a", 1, nil))
	// Member a is now in epoch 2. Assume that it has missed this answer.
	w.mustHandle(heartbeat("a", 1, w.t0(0, 1)))
	for name, c := range map[string]struct {
		h    *Heartbeat
		want error
	}{
		"unknown member":                           {heartbeat("c", 1, nil), ErrUnknownMember},
		"epoch above the stored one":               {heartbeat("a", 3, nil), ErrFencedEpoch},
		"previous epoch, owns assigned partitions": {heartbeat("a", 1, w.t0(0)), nil},
		"previous epoch, owns others":              {heartbeat("a", 1, w.t0(0, 3)), ErrFencedEpoch},
		"previous epoch, without owned partitions": {heartbeat("a", 1, nil), ErrFencedEpoch},
		"joins again":                              {join("a"), nil},
	} {
		if _, _, err := w.handle(c.h); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestReturningStaticMemberKeepsItsAssignment(t *testing.T) {
	w := newFaultlessWorld(t)
	static := func(id, instance string, epoch int32) *Heartbeat {
		h := join(id)
		if h.Instance = pointer(instance); epoch != EpochJoin {
			h = heartbeat(id, epoch, nil)
			h.Instance = pointer(instance)
		}
		return h
	}
	had := w.mustHandle(static("a", "i", EpochJoin)).Assignment
	if _, _, err := w.handle(static("b", "i", EpochJoin)); !errors.Is(err, ErrUnreleasedInstance) {
		t.Errorf("join of b while a is present: %v", err)
	}
	if _, _, err := w.handle(static("b", "i", 1)); !errors.Is(err, ErrFencedInstance) {
		t.Errorf("heartbeat of b: %v", err)
	}
	if a := w.mustHandle(static("a", "i", EpochLeaveStatic)); a.Epoch != EpochLeaveStatic {
		t.Errorf("temporary leave of a: %+v", a)
	}
	if c := w.mustHandle(join("c")); c.Assignment.Len() != 0 {
		t.Errorf("c got partitions of a: %+v", c)
	}
	w.failover()
	b := w.mustHandle(static("b", "i", EpochJoin))
	// Member c now owns half of the partitions that a had.
	if b.Epoch != 2 || !b.Assignment.Equal(w.t0(0, 1)) || len(w.group.members) != 2 {
		t.Errorf("join of b in the place of a: %+v; a had %v", b, had)
	}
	if _, _, err := w.handle(static("a", "i", 1)); !errors.Is(err, ErrFencedInstance) {
		t.Errorf("heartbeat of a: %v", err)
	}
	records, err := w.group.RemoveInstance("i")
	if err != nil || w.store(records) != nil || len(w.group.members) != 1 {
		t.Errorf("remove instance: %v", err)
	}
	if _, err := w.group.RemoveInstance("i"); !errors.Is(err, ErrUnknownMember) {
		t.Errorf("remove instance again: %v", err)
	}
}

func TestExpressionsMatchWholeNamesAndNewTopics(t *testing.T) {
	w := newFaultlessWorld(t)
	h := join("a")
	h.Topics, h.Expression = nil, pointer("t[0-5]")
	if a := w.mustHandle(h); a.Assignment.Len() != 4 {
		t.Fatalf("join: %+v", a)
	}
	w.create("t4", 2)
	w.create("t44", 2)
	if a := w.mustHandle(heartbeat("a", 1, nil)); a.Epoch != 2 || a.Assignment.Len() != 6 {
		t.Errorf("heartbeat after the creation of t4: %+v", a)
	}
	w.failover()
	if a := w.mustHandle(heartbeat("a", 2, nil)); a.Epoch != 2 || a.Assignment != nil {
		t.Errorf("heartbeat after a failover: %+v", a)
	}
	for bad, why := range map[string]string{"a)(b": "unexpected )", "(": "missing",
		strings.Repeat("a", 1025): "longer", strings.Repeat(".{999}", 11): "too many"} {
		h := heartbeat("a", 2, nil)
		h.Expression = pointer(bad)
		if _, _, err := w.handle(h); !errors.Is(err, ErrInvalidExpression) ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("%.30s: %v, want %s", bad, err, why)
		}
	}
	h = heartbeat("a", 2, nil)
	h.Expression = pointer("")
	if a := w.mustHandle(h); a.Assignment == nil || a.Assignment.Len() != 0 ||
		len(w.group.resolved) != 0 {
		t.Errorf("heartbeat without an expression: %+v; stored are %v", a, w.group.resolved)
	}
}

func TestInvalidHeartbeatsAreRejected(t *testing.T) {
	for name, change := range map[string]func(h *Heartbeat){
		"no group":                         func(h *Heartbeat) { h.Group = "" },
		"no member":                        func(h *Heartbeat) { h.Member = "" },
		"empty instance":                   func(h *Heartbeat) { h.Instance = pointer("") },
		"empty rack":                       func(h *Heartbeat) { h.Rack = pointer("") },
		"epoch below -2":                   func(h *Heartbeat) { h.Epoch = -3 },
		"temporary leave without instance": func(h *Heartbeat) { h.Epoch = EpochLeaveStatic },
		"join without timeout":             func(h *Heartbeat) { h.Rebalance = -1 },
		"join with partitions":             func(h *Heartbeat) { h.Owned = assignor.Assignment{{1}: {1}} },
		"join without list of partitions":  func(h *Heartbeat) { h.Owned = nil },
		"join without subscription":        func(h *Heartbeat) { h.Topics = nil },
	} {
		h := join("a")
		if change(h); !errors.Is(h.Check(), ErrInvalid) {
			t.Errorf("%s: %v", name, h.Check())
		}
	}
	h := join("a")
	if h.Assignor = pointer("sticky"); !errors.Is(h.Check(), ErrUnsupportedAssignor) {
		t.Errorf("assignor: %v", h.Check())
	}
}

func TestAssignorIsSelectedByVotes(t *testing.T) {
	w := newFaultlessWorld(t)
	for i, name := range []string{"range", "range", "uniform"} {
		h := join(fmt.Sprint("m", i))
		h.Assignor = pointer(name)
		w.mustHandle(h)
	}
	if got := w.group.Describe().Assignor; got != "range" {
		t.Errorf("assignor %s, want range", got)
	}
	h := heartbeat("m0", 1, nil)
	h.Assignor = pointer("uniform")
	before := w.group.epoch
	if w.mustHandle(h); w.group.Describe().Assignor != "uniform" || w.group.epoch != before+1 {
		t.Errorf("epoch %d after %d, assignor %s", w.group.epoch, before,
			w.group.Describe().Assignor)
	}
}

func TestGroupLimits(t *testing.T) {
	w := newFaultlessWorld(t)
	for i := range config.MembersMax {
		w.mustHandle(join(fmt.Sprint("m", i)))
	}
	if _, _, err := w.handle(join("more")); !errors.Is(err, ErrFull) {
		t.Errorf("one member too many: %v", err)
	}
	w.mustHandle(join("m0")) // m0 is a member, and a member can always join again
	h := heartbeat("m0", w.group.members["m0"].Epoch, nil)
	h.Topics = []string{strings.Repeat("x", config.RecordBytesMax)}
	if _, _, err := w.handle(h); !errors.Is(err, ErrTooLarge) {
		t.Errorf("oversized subscription: %v", err)
	}
}

// TestCommitsOfEarlierEpochs checks that a member can commit with an earlier assignment epoch if it
// has owned the partition since then (KIP-1251).
func TestCommitsOfEarlierEpochs(t *testing.T) {
	w := newFaultlessWorld(t)
	id := w.topics["t0"].ID
	if err := w.group.CheckCommit("", -1, nil); err != nil {
		t.Errorf("commit of an admin tool to an empty group: %v", err)
	}
	w.mustHandle(join("a"))
	w.mustHandle(join("b"))
	w.mustHandle(heartbeat("a", 1, nil))
	w.mustHandle(heartbeat("a", 1, w.t0(0, 1)))
	w.mustHandle(heartbeat("b", 2, nil))
	for _, c := range []struct {
		member    string
		epoch     int32
		partition int32
		want      error
	}{
		{"a", 2, 0, nil},
		{"a", 1, 0, nil},
		{"a", 1, 2, ErrStaleEpoch}, // b owns partition 2 now
		{"a", 3, 0, ErrStaleEpoch},
		{"b", 2, 2, nil},
		{"b", 1, 2, ErrStaleEpoch}, // b owns partition 2 only since epoch 2
		{"a", -1, 0, ErrStaleEpoch},
		{"", -1, 0, ErrUnknownMember},
		{"c", 2, 0, ErrUnknownMember},
	} {
		if err := w.group.CheckCommit(c.member, c.epoch,
			[]Partition{{id, c.partition}}); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for member, c := range map[string]struct {
		epoch int32
		want  error
	}{"": {-1, nil}, "a": {2, nil}, "b": {1, ErrStaleEpoch}, "c": {2, ErrUnknownMember}} {
		if err := w.group.CheckFetch(member, c.epoch); !errors.Is(err, c.want) {
			t.Errorf("fetch of %q: %v", member, err)
		}
	}
}

func TestTombstonesCoverAllRecords(t *testing.T) {
	w := newFaultlessWorld(t)
	h := join("a")
	h.Expression = pointer("t.*")
	w.mustHandle(h)
	w.mustHandle(join("b"))
	w.failover()
	if err := w.store(w.group.Tombstones()); err != nil {
		t.Fatal(err)
	}
	left := map[string][]byte{}
	for _, r := range w.log {
		left[string(r.Key)] = r.Value
	}
	for key, value := range left {
		if value != nil {
			t.Errorf("no tombstone for %q", key)
		}
	}
	if !w.group.Unused() || len(w.group.targets) != 0 || len(w.group.resolved) != 0 ||
		len(w.group.owners) != 0 {
		t.Errorf("the group is not empty: %+v", w.group)
	}
	if got := slices.Collect(w.group.MemberIDs()); len(got) != 0 {
		t.Errorf("members %v, want none", got)
	}
}
