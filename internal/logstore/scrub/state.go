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

// Target is one unit that a round checks.
type Target struct {
	// Topic and Partition name the partition. Topic is empty for the files of the data directory.
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	// Retained is the name of a retained log's directory; empty for a replica's log.
	Retained string `json:"retained,omitempty"`
	// Base is the base offset of a segment, or -1 for files that belong to no segment.
	Base int64 `json:"base"`
}

// dataDirectory is the target for the files of the data directory. It is the first target of a
// round.
var dataDirectory = Target{Base: -1}

func (t Target) id() checkpoint.PartitionID {
	return checkpoint.PartitionID{Topic: t.Topic, Index: t.Partition}
}

// compare defines the order of the targets in a round.
func (t Target) compare(other Target) int {
	return cmp.Or(t.id().Compare(other.id()), cmp.Compare(t.Retained, other.Retained),
		cmp.Compare(t.Base, other.Base))
}

// Damaged is a target in which the last check found damage.
type Damaged struct {
	Target
	Found  time.Time        `json:"found"`
	Places []inspect.Damage `json:"places"`
	// Repaired is the time at which the files were replaced by correct files; zero until then.
	Repaired time.Time `json:"repaired,omitzero"`
}

// State is the state of a broker's scrub, stored in the file named scrub. It is a value: its
// methods change no slice that an earlier copy shares.
type State struct {
	Version int `json:"version"`
	// Began is the start of the current round, or of the last round if Complete is true; zero
	// before the first round.
	Began    time.Time `json:"began"`
	Complete bool      `json:"complete"`
	// Last is the last checked target of the current round; nil at the start of the round.
	Last *Target `json:"last,omitempty"`
	// CheckedSince is the start of the last complete round. Everything that has been at rest since
	// this time was checked after it. It is zero before the end of the first round.
	CheckedSince time.Time `json:"checkedSince"`
	// Bytes is the number of bytes that the round has read.
	Bytes int64 `json:"bytes,omitempty"`
	// Ended is the end of the last complete round.
	Ended time.Time `json:"ended,omitzero"`
	// Damaged contains the targets with damage, in the order of a round.
	Damaged []Damaged `json:"damaged,omitempty"`
	// Repaired contains the most recent repairs, newest last.
	Repaired []Damaged `json:"repaired,omitempty"`
	// Tickets is the ticket of the last request.
	Tickets int64 `json:"tickets,omitempty"`
	// Requests contains the requests for immediate checks, sorted by topic.
	Requests []Request `json:"requests,omitempty"`
	// Annotated is the last request by annotation; nil before the first such request.
	Annotated *Annotated `json:"annotated,omitempty"`
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

// Next returns the next target of the round. targets lists all existing targets in order. If
// nothing is due at now, ok is false, and Next returns the time of the next round. A round begins
// one interval after the start of the previous round, or at once after the previous round if that
// took longer.
func (s State) Next(targets []Target, interval time.Duration, now time.Time) (next Target,
	state State, due time.Time, ok bool) {
	if s.Began.After(now) {
		s.Began = now // the clock was set back
	}
	if s.Complete || s.Began.IsZero() {
		if due = s.Began.Add(interval); !s.Began.IsZero() && now.Before(due) {
			return Target{}, s, due, false
		}
		s.Began, s.Complete, s.Last, s.Bytes = now, false, nil, 0
	}
	if index := passed(targets, s.Last); index < len(targets) {
		return targets[index], s, time.Time{}, true
	}
	s.Complete, s.CheckedSince, s.Ended = true, s.Began, now
	return Target{}, s.without(targets).served(targets, now), s.Began.Add(interval), false
}

// without returns the state without damaged targets that no longer exist.
func (s State) without(targets []Target) State {
	s.Damaged = slices.DeleteFunc(slices.Clone(s.Damaged), func(d Damaged) bool {
		_, exists := slices.BinarySearchFunc(targets, d.Target, Target.compare)
		return !exists
	})
	return s
}

// Anew returns the state in which a round begins at once.
func (s State) Anew() State {
	s.Began, s.Complete, s.Last = time.Time{}, true, nil
	return s
}

// damaged returns the index of a target in Damaged, or the index at which it would have to be
// inserted.
func (s State) damaged(t Target) (index int, found bool) {
	return slices.BinarySearchFunc(s.Damaged, t,
		func(d Damaged, t Target) int { return d.compare(t) })
}

// Checked returns the state after a target was checked. A target without damage is intact.
func (s State) Checked(t Target, places []inspect.Damage, now time.Time) State {
	index, found := s.damaged(t)
	s.Damaged = slices.Clone(s.Damaged)
	switch {
	case len(places) == 0 && found:
		s.Damaged = slices.Delete(s.Damaged, index, index+1)
	case len(places) > 0 && found:
		s.Damaged[index].Places = places
	case len(places) > 0:
		s.Damaged = slices.Insert(s.Damaged, index, Damaged{Target: t, Found: now, Places: places})
	}
	return s
}

// Passed returns the state after a target of the round was checked or has disappeared.
func (s State) Passed(t Target, bytes int64) State {
	s.Last, s.Bytes = &t, s.Bytes+bytes
	return s
}
