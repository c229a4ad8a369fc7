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

// quiet is a world in which nothing fails, with a topic t0 of four partitions.
func quiet(t *testing.T) *world {
	w := newWorld(t, 1)
	w.calm = true
	return w
}

func text(s string) *string { return &s }

func joining(id string) *Heartbeat {
	return &Heartbeat{Group: "g", Member: id, Rebalance: time.Minute, Topics: []string{"t0"},
		Owned: assignor.Assignment{}}
}

func (w *world) mustAsk(h *Heartbeat) Answer {
	w.t.Helper()
	a, _, err := w.ask(h)
	if err != nil {
		w.t.Fatalf("%+v: %v", h, err)
	}
	w.check()
	return a
}

// beat is a heartbeat without news; owned nil: not said.
func beat(id string, epoch int32, owned assignor.Assignment) *Heartbeat {
	return &Heartbeat{Group: "g", Member: id, Epoch: epoch, Rebalance: -1, Owned: owned}
}

func (w *world) t0(partitions ...int32) assignor.Assignment {
	if len(partitions) == 0 {
		return assignor.Assignment{}
	}
	return assignor.Assignment{w.topics["t0"].ID: partitions}
}

// The life of KIP-848's first example: one member has all, a second gets its share once the first
// has given it up.
func TestPartitionsAreRevokedBeforeTheyAreAssigned(t *testing.T) {
	w := quiet(t)
	all := w.t0(0, 1, 2, 3)
	if a := w.mustAsk(joining("a")); a.Epoch != 1 || !a.Assignment.Equal(all) ||
		a.Interval != config.Interval {
		t.Fatalf("a joins: %+v", a)
	}
	if a := w.mustAsk(beat("a", 1, all)); a.Epoch != 1 || a.Assignment != nil ||
		w.group.State() != "Stable" {
		t.Errorf("a beats: %+v in a group that is %s", a, w.group.State())
	}
	if b := w.mustAsk(joining("b")); b.Epoch != 2 || b.Assignment == nil ||
		b.Assignment.Len() != 0 {
		t.Errorf("b joins: %+v", b)
	}
	half := w.t0(0, 1)
	for _, owned := range []assignor.Assignment{nil, all} { // until it says that it has given up
		a := w.mustAsk(beat("a", 1, owned))
		if a.Epoch != 1 || w.group.State() != "Reconciling" || owned == nil &&
			!a.Assignment.Equal(half) {
			t.Errorf("a is told %+v in a group that is %s", a, w.group.State())
		}
		if b := w.mustAsk(beat("b", 2, nil)); b.Assignment != nil {
			t.Errorf("b is told %+v while a has all", b)
		}
	}
	if a := w.mustAsk(beat("a", 1, half)); a.Epoch != 2 || a.Assignment != nil {
		t.Errorf("a has given up: %+v", a)
	}
	if b := w.mustAsk(beat("b", 2, nil)); b.Epoch != 2 || !b.Assignment.Equal(w.t0(2, 3)) ||
		w.group.State() != "Stable" {
		t.Errorf("b is told %+v in a group that is %s", b, w.group.State())
	}
	d := w.group.Describe()
	if d.Epoch != 2 || d.AssignmentEpoch != 2 || d.Assignor != "uniform" || len(d.Members) != 2 ||
		!d.Members[0].Target.Equal(half) {
		t.Errorf("described as %+v", d)
	}
}

// Who does not give up in its rebalance timeout is out, though it beats.
func TestWhoDoesNotRevokeIsOut(t *testing.T) {
	w := quiet(t)
	w.mustAsk(joining("a"))
	w.mustAsk(joining("b"))
	for range 4 {
		w.mustAsk(beat("a", 1, nil))
		w.mustAsk(beat("b", 2, nil))
		w.advance(15 * time.Second)
	}
	if _, _, err := w.ask(beat("a", 1, nil)); !errors.Is(err, ErrUnknownMember) {
		t.Errorf("a is told %v", err)
	}
	if b := w.mustAsk(beat("b", 2, nil)); !b.Assignment.Equal(w.t0(0, 1, 2, 3)) {
		t.Errorf("b is told %+v", b)
	}
	w.advance(config.Session) // b is not heard of
	if w.group.State() != "Empty" || w.group.Unused() {
		t.Errorf("the group is %s", w.group.State())
	}
}

func TestEpochsFence(t *testing.T) {
	w := quiet(t)
	w.mustAsk(joining("a"))
	w.mustAsk(joining("b"))
	w.mustAsk(beat("a", 1, nil))
	w.mustAsk(beat("a", 1, w.t0(0, 1))) // epoch 2, and the answer is lost
	for name, c := range map[string]struct {
		h    *Heartbeat
		want error
	}{
		"unknown":                          {beat("c", 1, nil), ErrUnknownMember},
		"epoch from nowhere":               {beat("a", 3, nil), ErrFencedEpoch},
		"the one before, with what is its": {beat("a", 1, w.t0(0)), nil},
		"the one before, with too much":    {beat("a", 1, w.t0(0, 3)), ErrFencedEpoch},
		"the one before, and says nothing": {beat("a", 1, nil), ErrFencedEpoch},
		"joins anew":                       {joining("a"), nil},
	} {
		if _, _, err := w.ask(c.h); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestStaticMembersComeBackToWhatTheyHad(t *testing.T) {
	w := quiet(t)
	static := func(id, instance string, epoch int32) *Heartbeat {
		h := joining(id)
		if h.Instance = text(instance); epoch != EpochJoin {
			h = beat(id, epoch, nil)
			h.Instance = text(instance)
		}
		return h
	}
	had := w.mustAsk(static("a", "i", EpochJoin)).Assignment
	if _, _, err := w.ask(static("b", "i", EpochJoin)); !errors.Is(err, ErrUnreleasedInstance) {
		t.Errorf("while a is there b is told %v", err)
	}
	if _, _, err := w.ask(static("b", "i", 1)); !errors.Is(err, ErrFencedInstance) {
		t.Errorf("in an epoch b is told %v", err)
	}
	if a := w.mustAsk(static("a", "i", EpochLeaveStatic)); a.Epoch != EpochLeaveStatic {
		t.Errorf("a leaves for a while and is told %+v", a)
	}
	if c := w.mustAsk(joining("c")); c.Assignment.Len() != 0 {
		t.Errorf("what a had is given away: %+v", c)
	}
	w.failover()
	b := w.mustAsk(static("b", "i", EpochJoin))
	// c has its share of what was a's
	if b.Epoch != 2 || !b.Assignment.Equal(w.t0(0, 1)) || len(w.group.members) != 2 {
		t.Errorf("b comes in a's place and is told %+v; a had %v", b, had)
	}
	if _, _, err := w.ask(static("a", "i", 1)); !errors.Is(err, ErrFencedInstance) {
		t.Errorf("a is told %v", err)
	}
	records, err := w.group.RemoveInstance("i")
	if err != nil || w.store(records) != nil || len(w.group.members) != 1 {
		t.Errorf("removed: %v", err)
	}
	if _, err := w.group.RemoveInstance("i"); !errors.Is(err, ErrUnknownMember) {
		t.Errorf("removed again: %v", err)
	}
}

func TestExpressionsMatchWholeNamesAlsoOfTopicsThatComeLater(t *testing.T) {
	w := quiet(t)
	h := joining("a")
	h.Topics, h.Expression = nil, text("t[0-5]")
	if a := w.mustAsk(h); a.Assignment.Len() != 4 {
		t.Fatalf("told %+v", a)
	}
	w.create("t4", 2)
	w.create("t44", 2)
	if a := w.mustAsk(beat("a", 1, nil)); a.Epoch != 2 || a.Assignment.Len() != 6 {
		t.Errorf("with t4 told %+v", a)
	}
	w.failover()
	if a := w.mustAsk(beat("a", 2, nil)); a.Epoch != 2 || a.Assignment != nil {
		t.Errorf("after a failover told %+v", a)
	}
	for bad, why := range map[string]string{"a)(b": "unexpected )", "(": "missing",
		strings.Repeat("a", 1025): "longer", strings.Repeat(".{999}", 11): "too many"} {
		h := beat("a", 2, nil)
		h.Expression = text(bad)
		if _, _, err := w.ask(h); !errors.Is(err, ErrInvalidExpression) ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("%.30s: %v, want %s", bad, err, why)
		}
	}
	h = beat("a", 2, nil)
	h.Expression = text("")
	if a := w.mustAsk(h); a.Assignment == nil || a.Assignment.Len() != 0 ||
		len(w.group.resolved) != 0 {
		t.Errorf("without an expression told %+v; kept are %v", a, w.group.resolved)
	}
}

func TestHeartbeatsThatMakeNoSense(t *testing.T) {
	for name, change := range map[string]func(h *Heartbeat){
		"no group":           func(h *Heartbeat) { h.Group = "" },
		"no member":          func(h *Heartbeat) { h.Member = "" },
		"empty instance":     func(h *Heartbeat) { h.Instance = text("") },
		"empty rack":         func(h *Heartbeat) { h.Rack = text("") },
		"epoch":              func(h *Heartbeat) { h.Epoch = -3 },
		"away, not static":   func(h *Heartbeat) { h.Epoch = EpochLeaveStatic },
		"no timeout":         func(h *Heartbeat) { h.Rebalance = -1 },
		"partitions":         func(h *Heartbeat) { h.Owned = assignor.Assignment{{1}: {1}} },
		"partitions unknown": func(h *Heartbeat) { h.Owned = nil },
		"no subscription":    func(h *Heartbeat) { h.Topics = nil },
	} {
		h := joining("a")
		if change(h); !errors.Is(h.Check(), ErrInvalid) {
			t.Errorf("%s: %v", name, h.Check())
		}
	}
	h := joining("a")
	if h.Assignor = text("sticky"); !errors.Is(h.Check(), ErrUnsupportedAssignor) {
		t.Errorf("assignor: %v", h.Check())
	}
}

func TestAssignorOfTheMost(t *testing.T) {
	w := quiet(t)
	for i, name := range []string{"range", "range", "uniform"} {
		h := joining(fmt.Sprint("m", i))
		h.Assignor = text(name)
		w.mustAsk(h)
	}
	if got := w.group.Describe().Assignor; got != "range" {
		t.Errorf("assignor %s", got)
	}
	h := beat("m0", 1, nil)
	h.Assignor = text("uniform")
	before := w.group.epoch
	if w.mustAsk(h); w.group.Describe().Assignor != "uniform" || w.group.epoch != before+1 {
		t.Errorf("epoch %d after %d, assignor %s", w.group.epoch, before,
			w.group.Describe().Assignor)
	}
}

func TestGroupsHaveBounds(t *testing.T) {
	w := quiet(t)
	for i := range config.MembersMax {
		w.mustAsk(joining(fmt.Sprint("m", i)))
	}
	if _, _, err := w.ask(joining("more")); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	w.mustAsk(joining("m0")) // a member is never too many
	h := beat("m0", w.group.members["m0"].Epoch, nil)
	h.Topics = []string{strings.Repeat("x", config.RecordBytesMax)}
	if _, _, err := w.ask(h); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large subscription: %v", err)
	}
}

// KIP-1251: a commit that was sent in an earlier epoch counts, if the member has had the partition
// since then.
func TestCommitsOfEarlierEpochs(t *testing.T) {
	w := quiet(t)
	id := w.topics["t0"].ID
	if err := w.group.CheckCommit("", -1, nil); err != nil {
		t.Errorf("an admin's commit to an empty group: %v", err)
	}
	w.mustAsk(joining("a"))
	w.mustAsk(joining("b"))
	w.mustAsk(beat("a", 1, nil))
	w.mustAsk(beat("a", 1, w.t0(0, 1)))
	w.mustAsk(beat("b", 2, nil))
	for _, c := range []struct {
		member    string
		epoch     int32
		partition int32
		want      error
	}{
		{"a", 2, 0, nil},
		{"a", 1, 0, nil},
		{"a", 1, 2, ErrStaleEpoch}, // b's now
		{"a", 3, 0, ErrStaleEpoch},
		{"b", 2, 2, nil},
		{"b", 1, 2, ErrStaleEpoch}, // it got that in epoch 2
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
			t.Errorf("%q fetches: %v", member, err)
		}
	}
}

// Tombstones leaves nothing, and is right for a group that was loaded.
func TestBuryLeavesNothing(t *testing.T) {
	w := quiet(t)
	h := joining("a")
	h.Expression = text("t.*")
	w.mustAsk(h)
	w.mustAsk(joining("b"))
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
			t.Errorf("left: %q", key)
		}
	}
	if !w.group.Unused() || len(w.group.targets) != 0 || len(w.group.resolved) != 0 ||
		len(w.group.owners) != 0 {
		t.Errorf("left: %+v", w.group)
	}
	if got := slices.Collect(w.group.MemberIDs()); len(got) != 0 {
		t.Errorf("members %v", got)
	}
}
