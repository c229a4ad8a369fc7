package partitionset

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/internal/placement"
)

// Reclaim determines what happens to the records of a partition.
type Reclaim string

const (
	// Retain keeps the records when the Topic is deleted.
	Retain Reclaim = ""
	// Delete deletes the records together with the Topic.
	Delete Reclaim = "delete"
	// Retained is the value after the deletion of a Topic whose records are retained.
	Retained Reclaim = "retained"
	// Remove is the value of a retained partition whose records a user has given up. The brokers
	// delete the records, and no Topic can adopt them.
	Remove Reclaim = "remove"
)

// Orphaned reports whether the entry belongs to a deleted Topic whose records were retained.
func (r Reclaim) Orphaned() bool { return r == Retained || r == Remove }

// Assignment is a partition's requested assignment.
type Assignment struct {
	Replicas []int32 // distinct broker ids, the preferred leader first
	Tag      string  // tag of the topic's id
	Reclaim  Reclaim
}

// State is a partition's state.
type State struct {
	// Partition contains the stored state. Its field Target is not set, because the assignment is the
	// target; see Entry.Placed.
	placement.Partition
	// Serving is true if the leader has reported that it serves in LeaderEpoch.
	Serving bool
	// Prefer is the leader epoch in which a client has requested the election of the preferred leader;
	// 0 if there is no request.
	Prefer int32
	// Changes is the number of changes of the entry (the partition epoch in KRaft).
	Changes int64
}

// Entry contains the assignment and the state of one partition in a set. Its values are immutable.
type Entry struct {
	Assignment *Assignment // nil if the set contains only the state
	State      *State      // nil if the partition is new
	// Lent is true if the second of two assigned replicas is lent; see Set.Lend.
	Lent bool
}

// Placed returns the partition in the form that package placement uses. Its target is the
// assignment. A new partition has the assigned replicas.
func (e Entry) Placed() placement.Partition {
	placed := placement.Partition{Leader: placement.NoLeader}
	if e.State != nil {
		placed = e.State.Partition
	}
	if e.Assignment != nil {
		placed.Target = e.Assignment.Replicas
		if len(placed.Replicas) == 0 {
			placed.Replicas = e.Assignment.Replicas
		}
	}
	return placed
}

// Reassigning reports whether the replicas differ from the assignment.
func (e Entry) Reassigning() bool {
	return e.State != nil && e.Assignment != nil && len(e.State.Replicas) > 0 &&
		!slices.Equal(e.State.Replicas, e.Assignment.Replicas)
}

// Leaderless reports whether the partition has no leader.
func (e Entry) Leaderless() bool {
	return e.State == nil || e.State.Leader == placement.NoLeader
}

// UnderReplicated reports whether the partition has no leader or a replica that is not in sync.
func (e Entry) UnderReplicated() bool {
	return e.Leaderless() || len(e.State.ISR) < len(e.State.Replicas)
}

// Brokers returns the sorted ids of all brokers that have a replica, are assigned one, or are in
// sync.
func (e Entry) Brokers() []int32 {
	var all []int32
	if e.Assignment != nil {
		all = append(all, e.Assignment.Replicas...)
	}
	if e.State != nil {
		all = append(all, e.State.Replicas...)
		for _, m := range e.State.ISR {
			all = append(all, m.Broker)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// BelongsTo reports whether the partition is assigned to the existing Topic with the given tag.
func (e Entry) BelongsTo(tag string) bool {
	return e.Assignment != nil && e.Assignment.Tag == tag && !e.Assignment.Reclaim.Orphaned()
}

// Retained reports whether the partition belongs to a deleted topic whose records are retained.
func (e Entry) Retained() bool {
	return e.Assignment != nil && e.Assignment.Reclaim == Retained
}

// Serves reports whether the partition has a leader that serves.
func (e Entry) Serves() bool {
	return !e.Leaderless() && e.State.Serving
}

func (a Assignment) format() string {
	text := joinIDs(a.Replicas) + " " + a.Tag
	if a.Reclaim != Retain {
		text += " " + string(a.Reclaim)
	}
	return text
}

func parseAssignment(text string) (*Assignment, error) {
	words := strings.Split(text, " ")
	if len(words) < 2 || len(words) > 3 {
		return nil, errors.New("want the replicas and the topic")
	}
	replicas, err := parseIDs(words[0])
	if err != nil {
		return nil, err
	}
	if words[1] == "" {
		return nil, errors.New("the topic is missing")
	}
	a := &Assignment{Replicas: replicas, Tag: words[1]}
	if len(words) == 3 {
		a.Reclaim = Reclaim(words[2])
		if a.Reclaim != Delete && !a.Reclaim.Orphaned() {
			return nil, fmt.Errorf("the third word is %.20q, want %s, %s or %s", words[2], Delete,
				Retained, Remove)
		}
	}
	return a, nil
}

// directories maps <broker>:<broker epoch> to the directory id of the broker's disk in that epoch.
type directories map[string]string

func epochKey(m placement.InSyncReplica) string {
	return strconv.Itoa(int(m.Broker)) + ":" + strconv.FormatInt(m.Epoch, 10)
}

// These are optional words in the text of a state.
const (
	// wordDirectory precedes the last leader's directory. It is absent if that directory is the one
	// that impliedDirectory returns.
	wordDirectory = "dir"
	wordUnproven  = "unproven" // followed by UnprovenEpoch
	wordFound     = "found"    // followed by FoundEpoch
	wordPrefer    = "prefer"   // followed by Prefer
)

const (
	none       = "-" // means no leader, or an unknown directory
	notServing = "?" // follows the leader epoch if the leader has not reported that it serves
)

// impliedDirectory returns the last leader's directory for a state without wordDirectory: the
// directory of the leader or, without a leader, of the only in-sync replica.
func (s State) impliedDirectory() string {
	for _, m := range s.ISR {
		if m.Broker == s.Leader || s.Leader == placement.NoLeader && len(s.ISR) == 1 {
			return m.Directory
		}
	}
	return ""
}

func (s State) format() string {
	words := make([]string, 0, 8)
	leader := none
	if s.Leader != placement.NoLeader {
		leader = strconv.Itoa(int(s.Leader))
	}
	leader += "@" + strconv.Itoa(int(s.LeaderEpoch))
	if !s.Serving {
		leader += notServing
	}
	replicas := make([]string, len(s.Replicas))
	incarnations := make([]string, len(s.Replicas))
	for i, id := range s.Replicas {
		replicas[i] = strconv.Itoa(int(id))
		for _, m := range s.ISR {
			if m.Broker == id {
				replicas[i] = epochKey(m)
			}
		}
		incarnations[i] = s.ReplicaIncarnations[id]
	}
	if all := slices.Compact(slices.Clone(incarnations)); len(all) == 1 {
		incarnations = all
	}
	words = append(words, leader, strings.Join(replicas, ","), strings.Join(incarnations, ","),
		strconv.FormatInt(s.Changes, 10))
	if s.LeaderDirectory != s.impliedDirectory() {
		directory := none
		if s.LeaderDirectory != "" {
			directory = s.LeaderDirectory
		}
		words = append(words, wordDirectory+"="+directory)
	}
	if s.UnprovenEpoch != 0 {
		words = append(words, wordUnproven+"="+strconv.Itoa(int(s.UnprovenEpoch)))
	}
	if s.FoundEpoch != nil {
		words = append(words, wordFound+"="+strconv.Itoa(int(*s.FoundEpoch)))
	}
	if s.Prefer != 0 {
		words = append(words, wordPrefer+"="+strconv.Itoa(int(s.Prefer)))
	}
	return strings.Join(words, " ")
}

func parseState(text string, known directories) (*State, error) {
	words := strings.Split(text, " ")
	if len(words) < 4 {
		return nil, errors.New("want leader, replicas, incarnation and number of changes")
	}
	s := &State{}
	if err := s.parseLeader(words[0]); err != nil {
		return nil, err
	}
	if err := s.parseReplicas(words[1], known); err != nil {
		return nil, err
	}
	if err := s.parseIncarnations(words[2]); err != nil {
		return nil, err
	}
	var err error
	if s.Changes, err = parseNumber(words[3], 63); err != nil {
		return nil, err
	}
	s.LeaderDirectory = s.impliedDirectory()
	for _, word := range words[4:] {
		if err := s.parseWord(word); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *State) parseLeader(word string) error {
	leader, epoch, ok := strings.Cut(word, "@")
	if !ok {
		return fmt.Errorf("the leader is %.20q, want LEADER@EPOCH", word)
	}
	epoch, notYet := strings.CutSuffix(epoch, notServing)
	s.Serving = !notYet
	number, err := parseNumber(epoch, 31)
	if err != nil {
		return err
	}
	s.Leader, s.LeaderEpoch = placement.NoLeader, int32(number)
	if leader == none {
		return nil
	}
	number, err = parseNumber(leader, 31)
	s.Leader = int32(number)
	return err
}

func (s *State) parseReplicas(word string, known directories) error {
	for part := range strings.SplitSeq(word, ",") {
		id, epoch, inSync := strings.Cut(part, ":")
		number, err := parseNumber(id, 31)
		if err != nil {
			return err
		}
		broker := int32(number)
		if slices.Contains(s.Replicas, broker) {
			return fmt.Errorf("broker %d has two replicas", broker)
		}
		s.Replicas = append(s.Replicas, broker)
		if !inSync {
			continue
		}
		m := placement.InSyncReplica{Broker: broker}
		if m.Epoch, err = parseNumber(epoch, 63); err != nil {
			return err
		}
		m.Directory = known[epochKey(m)]
		s.ISR = append(s.ISR, m)
	}
	return nil
}

func (s *State) parseIncarnations(word string) error {
	ids := strings.Split(word, ",")
	if len(ids) != 1 && len(ids) != len(s.Replicas) {
		return fmt.Errorf("%d incarnation ids for %d replicas", len(ids), len(s.Replicas))
	}
	s.ReplicaIncarnations = make(map[int32]string, len(s.Replicas))
	for i, broker := range s.Replicas {
		id := ids[min(i, len(ids)-1)]
		if id == "" || id == none {
			return fmt.Errorf("the replica of broker %d has no incarnation id", broker)
		}
		s.ReplicaIncarnations[broker] = id
	}
	return nil
}

// parseWord parses an optional word. An unknown word is an error: a later version has written it,
// and a change would remove it.
func (s *State) parseWord(word string) error {
	name, value, _ := strings.Cut(word, "=")
	if name == wordDirectory {
		s.LeaderDirectory = value
		if value == none {
			s.LeaderDirectory = ""
		}
		return nil
	}
	number, err := parseNumber(value, 31)
	epoch := int32(number)
	switch name {
	case wordUnproven:
		s.UnprovenEpoch = epoch
	case wordFound:
		s.FoundEpoch = &epoch
	case wordPrefer:
		s.Prefer = epoch
	default:
		return fmt.Errorf("word %.20q is unknown", word)
	}
	return err
}

// parseNumber parses a number that is not negative and has at most the given number of bits.
func parseNumber(text string, bits int) (int64, error) {
	number, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("parse number %.30q: %w", text, err)
	}
	return int64(number), nil
}

func joinIDs(ids []int32) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.Itoa(int(id))
	}
	return strings.Join(words, ",")
}

// parseIDs parses a list of distinct broker ids such as "0,1,2".
func parseIDs(text string) (ids []int32, err error) {
	for word := range strings.SplitSeq(text, ",") {
		number, err := parseNumber(word, 31)
		if err != nil {
			return nil, err
		}
		if slices.Contains(ids, int32(number)) {
			return nil, fmt.Errorf("broker %d is named twice", number)
		}
		ids = append(ids, int32(number))
	}
	return ids, nil
}
