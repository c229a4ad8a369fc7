package scrub

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/inspect"
)

// Target is one unit of a round.
type Target struct {
	// Partition is empty for the files of the data directory.
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	// Base is the base offset of a segment, or -1 for the files that belong to no segment.
	Base int64 `json:"base"`
}

// dataDirectory is the target of the files of the data directory. It is the first one of a round.
var dataDirectory = Target{Base: -1}

func (t Target) id() checkpoint.PartitionID {
	return checkpoint.PartitionID{Topic: t.Topic, Index: t.Partition}
}

// compare is the order of a round.
func (t Target) compare(other Target) int {
	return cmp.Or(t.id().Compare(other.id()), cmp.Compare(t.Base, other.Base))
}

// Damaged is a target in which the last check found damage.
type Damaged struct {
	Target
	Found  time.Time        `json:"found"`
	Places []inspect.Damage `json:"places"`
}

// State is what a broker knows about its scrub, and keeps in the file scrub. It is a value: its
// methods change no slice that an earlier copy shares.
type State struct {
	Version int `json:"version"`
	// Began is the begin of the current round, or of the last one if Complete is true; zero before
	// the first round.
	Began    time.Time `json:"began"`
	Complete bool      `json:"complete"`
	// Last is the last target of the current round that was checked; nil at its begin.
	Last *Target `json:"last,omitempty"`
	// CheckedSince is the begin of the last complete round: everything that is at rest since then
	// was checked afterwards. It is zero before the end of the first round.
	CheckedSince time.Time `json:"checkedSince"`
	// Damaged are the targets with damage, in their order.
	Damaged []Damaged `json:"damaged,omitempty"`
}

const stateVersion = 1

// errState is wrapped by every error about the content of the file scrub.
var errState = errors.New("malformed scrub state")

// Encode returns the content of the file scrub.
func (s State) Encode() ([]byte, error) {
	s.Version = stateVersion
	content, err := json.Marshal(s)
	return append(content, '\n'), err
}

// DecodeState decodes the content of the file scrub.
func DecodeState(content []byte) (s State, err error) {
	if err := json.Unmarshal(content, &s); err != nil {
		return State{}, fmt.Errorf("%w: %w", errState, err)
	}
	if s.Version != stateVersion {
		return State{}, fmt.Errorf("%w: version %d, want %d", errState, s.Version, stateVersion)
	}
	return s, nil
}

// Next returns the next target of the round. The targets are all that exist, in order. ok is false
// if nothing is due at now; then Next returns the time of the next round. A round begins an
// interval after the begin of the one before, or at once if that one has taken longer.
func (s State) Next(targets []Target, interval time.Duration, now time.Time) (next Target,
	state State, due time.Time, ok bool) {
	if s.Began.After(now) {
		s.Began = now // the clock was set back
	}
	if s.Complete || s.Began.IsZero() {
		if due = s.Began.Add(interval); !s.Began.IsZero() && now.Before(due) {
			return Target{}, s, due, false
		}
		s.Began, s.Complete, s.Last = now, false, nil
	}
	index := 0
	if s.Last != nil {
		passed, exists := slices.BinarySearchFunc(targets, *s.Last, Target.compare)
		if index = passed; exists {
			index++
		}
	}
	if index < len(targets) {
		return targets[index], s, time.Time{}, true
	}
	s.Complete, s.CheckedSince = true, s.Began
	return Target{}, s.without(targets), s.Began.Add(interval), false
}

// without returns the state without the damaged targets that no longer exist.
func (s State) without(targets []Target) State {
	s.Damaged = slices.DeleteFunc(slices.Clone(s.Damaged), func(d Damaged) bool {
		_, exists := slices.BinarySearchFunc(targets, d.Target, Target.compare)
		return !exists
	})
	return s
}

// Anew returns the state with which a round begins at once.
func (s State) Anew() State {
	s.Began, s.Complete, s.Last = time.Time{}, true, nil
	return s
}

// Checked returns the state after a target was checked. Without places it is healthy.
func (s State) Checked(t Target, places []inspect.Damage, now time.Time) State {
	index, found := slices.BinarySearchFunc(s.Damaged, t,
		func(d Damaged, t Target) int { return d.compare(t) })
	s.Damaged = slices.Clone(s.Damaged)
	switch {
	case len(places) == 0 && found:
		s.Damaged = slices.Delete(s.Damaged, index, index+1)
	case len(places) > 0 && found:
		s.Damaged[index].Places = places
	case len(places) > 0:
		s.Damaged = slices.Insert(s.Damaged, index, Damaged{t, now, places})
	}
	return s
}

// Passed returns the state after a target of the round was checked, or has disappeared.
func (s State) Passed(t Target) State {
	s.Last = &t
	return s
}
