package partitionset

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// Set is a decoded PartitionSet.
type Set struct {
	assignments map[Key]*text[Assignment]
	states      map[Key]*text[State]
	// lent contains the loans by partition, including loans that an assignment has ended; see Lend.
	lent        map[Key]int32
	directories directories
	// invalid entries of the spec and of the status, which are never changed
	invalidAssignments, invalidStates map[string]string
	specChanged, statusChanged        bool
	// uid and version are metadata.uid and metadata.resourceVersion of the resource.
	uid, version string
}

// text is a value together with its text in the resource. It is immutable.
type text[T any] struct {
	raw   string
	value T
}

// Decode decodes a PartitionSet. If previous is an earlier version of the same set, Decode reuses
// its entries that have not changed; previous may be nil. Each fault names an entry that cannot be
// parsed.
func Decode(from *v1alpha1.PartitionSet, previous *Set) (s *Set, faults []error) {
	s = &Set{assignments: make(map[Key]*text[Assignment], len(from.Spec.Assignments)),
		states:      make(map[Key]*text[State], len(from.Status.Partitions)),
		directories: from.Status.Directories, lent: decodeLent(from.Spec.Lent),
		uid: string(from.UID), version: from.ResourceVersion}
	var known *Set
	if previous != nil {
		known = &Set{assignments: previous.assignments}
		if maps.Equal(previous.directories, s.directories) {
			known.states = previous.states
		}
	} else {
		known = &Set{}
	}
	var more []error
	s.invalidAssignments, faults = decode(from.Spec.Assignments, known.assignments, s.assignments,
		parseAssignment)
	s.invalidStates, more = decode(from.Status.Partitions, known.states, s.states,
		func(raw string) (*State, error) { return parseState(raw, s.directories) })
	return s, append(faults, more...)
}

// decode parses the entries in one map of the resource.
func decode[T any](from map[string]string, known, to map[Key]*text[T],
	parse func(string) (*T, error)) (invalid map[string]string, faults []error) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		raw := from[name]
		key, err := ParseKey(name)
		if err == nil {
			if last := known[key]; last != nil && last.raw == raw {
				to[key] = last
				continue
			}
			var value *T
			if value, err = parse(raw); err == nil {
				to[key] = &text[T]{raw, *value}
				continue
			}
		}
		if invalid == nil {
			invalid = map[string]string{}
		}
		invalid[name] = raw
		faults = append(faults, fmt.Errorf("entry %.100q: %w", name, err))
	}
	return invalid, faults
}

// Clone returns a copy that can be changed independently.
func (s *Set) Clone() *Set {
	c := *s
	c.assignments, c.states = maps.Clone(s.assignments), maps.Clone(s.states)
	c.directories, c.lent = maps.Clone(s.directories), maps.Clone(s.lent)
	return &c
}

// IsOf reports whether the set was decoded from this version of the PartitionSet.
func (s *Set) IsOf(version *v1alpha1.PartitionSet) bool {
	return s.uid == string(version.UID) && s.version == version.ResourceVersion
}

// Get returns a partition's entry. ok is false if the set contains neither the partition's
// assignment nor its state.
func (s *Set) Get(key Key) (entry Entry, ok bool) {
	if a := s.assignments[key]; a != nil {
		entry.Assignment, entry.Lent = &a.value, s.isLent(key, a)
	}
	if state := s.states[key]; state != nil {
		entry.State = &state.value
	}
	return entry, entry.Assignment != nil || entry.State != nil
}

// All iterates over the entries in an undefined order.
func (s *Set) All() iter.Seq2[Key, Entry] {
	return func(yield func(Key, Entry) bool) {
		assigned := 0 // number of states with an assignment
		for key, a := range s.assignments {
			entry := Entry{Assignment: &a.value, Lent: s.isLent(key, a)}
			if state := s.states[key]; state != nil {
				entry.State = &state.value
				assigned++
			}
			if !yield(key, entry) {
				return
			}
		}
		if assigned == len(s.states) {
			return
		}
		for key, state := range s.states {
			if s.assignments[key] == nil && !yield(key, Entry{State: &state.value}) {
				return
			}
		}
	}
}

// Keys returns the keys of all entries, in order.
func (s *Set) Keys() []Key {
	keys := make([]Key, 0, len(s.assignments))
	for key := range s.All() {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, Key.Compare)
	return keys
}

// Retained returns the partitions of deleted topics whose records are retained or being removed, in
// order.
func (s *Set) Retained() (all []metadata.RetainedPartition) {
	for key, entry := range s.All() {
		if entry.Assignment == nil || !entry.Assignment.Reclaim.Orphaned() {
			continue
		}
		p := entry.Placed()
		all = append(all, metadata.RetainedPartition{Topic: key.Topic, Partition: key.Index,
			Replicas: slices.Clone(p.Replicas), LeaderEpoch: p.LeaderEpoch,
			Tag: entry.Assignment.Tag, Removing: entry.Assignment.Reclaim == Remove})
	}
	slices.SortFunc(all, metadata.RetainedPartition.Compare)
	return all
}

// Invalid reports whether the set has an entry for the given partition that cannot be parsed. Such
// a partition must not be assigned again.
func (s *Set) Invalid(key Key) bool {
	_, assignment := s.invalidAssignments[key.String()]
	_, state := s.invalidStates[key.String()]
	return assignment || state
}

// InvalidKeys returns the keys of the entries that cannot be parsed, except entries whose key
// itself cannot be parsed.
func (s *Set) InvalidKeys() (keys []Key) {
	for _, invalid := range []map[string]string{s.invalidAssignments, s.invalidStates} {
		for name := range invalid {
			if key, err := ParseKey(name); err == nil {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Assign sets a partition's assignment.
func (s *Set) Assign(key Key, a Assignment) {
	raw := a.format()
	if before := s.assignments[key]; before != nil && before.raw == raw {
		return
	}
	a.Replicas = slices.Clone(a.Replicas)
	s.assignments[key], s.specChanged = &text[Assignment]{raw, a}, true
}

// Unassign removes a partition's assignment.
func (s *Set) Unassign(key Key) {
	if s.assignments[key] != nil {
		delete(s.assignments, key)
		s.specChanged = true
	}
}

// PutState sets a partition's state. It counts the change in State.Changes, unless the state equals
// the current one. It ignores the state's Target.
func (s *Set) PutState(key Key, state State) {
	state.Target, state.Changes = nil, 0
	state.Serving = state.Serving && state.Leader >= 0
	s.sortISR(&state)
	if before := s.states[key]; before != nil {
		state.Changes = before.value.Changes
		if before.raw == state.format() && s.knows(state) {
			return
		}
	}
	state.Changes++
	for _, m := range state.ISR {
		if m.Directory != "" {
			if s.directories == nil {
				s.directories = directories{}
			}
			s.directories[epochKey(m)] = m.Directory
		}
	}
	s.states[key], s.statusChanged = &text[State]{state.format(), state}, true
}

// confirm increments a state's Changes and leaves the rest of the state unchanged.
func (s *Set) confirm(key Key) {
	state := s.states[key].value
	state.Changes++
	s.states[key], s.statusChanged = &text[State]{state.format(), state}, true
}

// sortISR sorts the ISR in the order of the replicas, as it is stored.
func (s *Set) sortISR(state *State) {
	if len(state.ISR) == 0 {
		state.ISR = nil
		return
	}
	state.ISR = slices.Clone(state.ISR)
	slices.SortFunc(state.ISR, func(a, b placement.InSyncReplica) int {
		return slices.Index(state.Replicas, a.Broker) - slices.Index(state.Replicas, b.Broker)
	})
}

// knows reports whether the table of directories contains the directories in the ISR.
func (s *Set) knows(state State) bool {
	for _, m := range state.ISR {
		if m.Directory != "" && s.directories[epochKey(m)] != m.Directory {
			return false
		}
	}
	return true
}

// RemoveState removes the state of a partition.
func (s *Set) RemoveState(key Key) {
	if s.states[key] != nil {
		delete(s.states, key)
		s.statusChanged = true
	}
}

// TouchStatus makes the writer write the status even if no state has changed.
func (s *Set) TouchStatus() { s.statusChanged = true }

// Empty reports whether the set contains no entry, not even one that cannot be parsed.
func (s *Set) Empty() bool {
	return len(s.assignments)+len(s.states)+len(s.invalidAssignments)+len(s.invalidStates) == 0
}

// SpecChanged reports whether an assignment has changed since Decode.
func (s *Set) SpecChanged() bool { return s.specChanged }

// StatusChanged reports whether a state has changed since Decode.
func (s *Set) StatusChanged() bool { return s.statusChanged }

// EncodeSpec writes the assignments into a PartitionSet.
func (s *Set) EncodeSpec(to *v1alpha1.PartitionSet) {
	to.Spec.Assignments = encode(s.assignments, s.invalidAssignments)
	to.Spec.Lent = s.encodeLent()
}

// EncodeStatus writes the states, and the directories that they name, into a PartitionSet.
func (s *Set) EncodeStatus(to *v1alpha1.PartitionSet) {
	to.Status.Partitions = encode(s.states, s.invalidStates)
	to.Status.Directories = nil
	if len(s.invalidStates) > 0 {
		// Keep all directories, because an invalid entry may name any of them.
		to.Status.Directories = maps.Clone(s.directories)
		return
	}
	for _, state := range s.states {
		for _, m := range state.value.ISR {
			key := epochKey(m)
			if id := s.directories[key]; id != "" {
				if to.Status.Directories == nil {
					to.Status.Directories = map[string]string{}
				}
				to.Status.Directories[key] = id
			}
		}
	}
}

func encode[T any](entries map[Key]*text[T], invalid map[string]string) map[string]string {
	if len(entries)+len(invalid) == 0 {
		return nil
	}
	to := make(map[string]string, len(entries)+len(invalid))
	maps.Copy(to, invalid)
	for key, entry := range entries {
		to[key.String()] = entry.raw
	}
	return to
}
