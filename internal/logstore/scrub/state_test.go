package scrub

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// TestEachTargetIsCheckedOnceARound compares rounds over changing targets, with restarts, with a
// model. A target that exists during a whole round is checked once in the round, no target is
// checked twice, and rounds begin an interval apart.
func TestEachTargetIsCheckedOnceARound(t *testing.T) {
	const interval = time.Hour
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	now := time.UnixMilli(1_700_000_000_000).UTC()
	var state State
	targets := []Target{dataDirectory}
	var stayed map[Target]bool // targets that have existed since the start of the round
	checks := map[Target]int{}
	last := time.Time{}
	rounds := 0
	for range 20_000 {
		now = now.Add(time.Duration(random.IntN(int(time.Minute))))
		if random.IntN(4) == 0 {
			changeTargets(random, &targets, stayed)
		}
		if random.IntN(10) == 0 {
			state = restarted(t, state)
		}
		next, after, due, ok := state.Next(targets, interval, now)
		if !after.Began.Equal(last) {
			if !last.IsZero() && after.Began.Sub(last) < interval {
				t.Fatalf("round began %v after the one before", after.Began.Sub(last))
			}
			last, stayed = after.Began, map[Target]bool{}
			clear(checks)
			for _, target := range targets {
				stayed[target] = true
			}
		}
		if after.Complete && !state.Complete {
			rounds++
			for target := range stayed {
				if checks[target] != 1 {
					t.Fatalf("target %v was checked %d times", target, checks[target])
				}
			}
			if !after.CheckedSince.Equal(after.Began) {
				t.Fatalf("checked since %v, want %v", after.CheckedSince, after.Began)
			}
		}
		state = after
		if !ok {
			if random.IntN(4) == 0 {
				now = due
			}
			continue
		}
		if checks[next]++; checks[next] > 1 {
			t.Fatalf("target %v was checked twice", next)
		}
		state = state.Checked(next, nil, now).Passed(next, 1)
	}
	if rounds < 10 {
		t.Fatalf("%d rounds, want at least 10", rounds)
	}
}

func changeTargets(random *rand.Rand, targets *[]Target, stayed map[Target]bool) {
	t := Target{Topic: "topic", Partition: int32(random.IntN(4)), Base: int64(random.IntN(10)) - 1}
	index, found := slices.BinarySearchFunc(*targets, t, Target.compare)
	if found {
		*targets = slices.Delete(slices.Clone(*targets), index, index+1)
		delete(stayed, t)
		return
	}
	*targets = slices.Insert(slices.Clone(*targets), index, t)
}

func restarted(t *testing.T, state State) State {
	t.Helper()
	content, err := state.Encode()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := DecodeState(content)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func TestDamageIsKeptUntilItIsRepairedOrGone(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000).UTC()
	a, b := Target{Topic: "a", Partition: 0, Base: 10}, Target{Topic: "b", Partition: 1, Base: 20}
	places := []inspect.Damage{{File: "x.log", Position: 7, Problem: "checksum"}}
	state := State{}.Checked(b, places, now).Checked(a, places, now.Add(1)).
		Checked(a, places, now.Add(2))
	want := []Damaged{{Target: a, Found: now.Add(1), Places: places},
		{Target: b, Found: now, Places: places}}
	if got := restarted(t, state).Damaged; !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if got := state.Checked(a, nil, now).Damaged; len(got) != 1 || got[0].Target != b {
		t.Errorf("got %v after a healthy check of a", got)
	}
	_, state, _, _ = state.Passed(b, 1).Next([]Target{a}, time.Hour, now)
	_, state, _, _ = state.Next([]Target{a}, time.Hour, now)
	if len(state.Damaged) == 2 && state.Complete {
		t.Errorf("got %v after the segment of b was removed", state.Damaged)
	}
}

func TestMalformedStateIsRefused(t *testing.T) {
	for _, content := range []string{"", "{", `{"version":2}`, `{}`, `[]`} {
		if state, err := DecodeState([]byte(content)); err == nil {
			t.Errorf("%q: got %+v", content, state)
		}
	}
}

func TestClockSetBackDelaysNoRound(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	state := State{Began: now.Add(1000 * time.Hour), Complete: true}
	_, _, due, _ := state.Next(nil, time.Hour, now)
	if due.After(now.Add(time.Hour)) {
		t.Errorf("next round at %v", due)
	}
}

func TestReadsRest(t *testing.T) {
	for _, c := range []struct {
		took time.Duration
		busy bool
		want time.Duration
	}{
		{0, false, time.Second},
		{200 * time.Millisecond, false, 800 * time.Millisecond},
		{400 * time.Millisecond, false, 1200 * time.Millisecond}, // a slow disk
		{0, true, 8 * time.Second},
	} {
		if got := rest(1<<20, c.took, 1<<20, c.busy); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

func TestScrubThatIsOffReadsNothing(t *testing.T) {
	mem := vfs.NewMem()
	if err := vfs.WriteFileAtomic(mem, "/file", []byte("content")); err != nil {
		t.Fatal(err)
	}
	rate := int64(1 << 40)
	var checked atomic.Int64
	files := pacedFS{mem, &pacer{ctx: t.Context(), rate: func() int64 { return rate },
		busy: func() bool { return false }, checked: &checked}}
	file, err := files.Open("/file")
	if err != nil {
		t.Fatal(err)
	}
	rate = 0
	if _, err := file.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrOff) {
		t.Errorf("read of an open file: %v", err)
	}
	if _, err := files.ReadFile("/file"); !errors.Is(err, ErrOff) || checked.Load() != 0 {
		t.Errorf("read: %v, %d bytes checked", err, checked.Load())
	}
}
