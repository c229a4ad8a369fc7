package sim

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/placement"
)

// objectStore is the part of the API server that stores PartitionSets. It supports objects with
// resourceVersions, compare-and-swap, and watches that begin at a version.
type objectStore struct {
	w *world
	// acceptStale disables compare-and-swap and the checks of entries. So a test can show that the
	// other checks detect the effects.
	acceptStale bool
	mu          struct {
		sync.Mutex
		sets    map[string]*v1alpha1.PartitionSet
		decoded map[string]*partitionset.Set // decoded sets, by name
		version int64
		history []storedVersion // all versions of all sets, in order
		// compacted is the version up to which watches can no longer begin.
		compacted int64
		random    *rand.Rand
		changed   chan struct{} // closed and replaced when a set or a registration changes
		// unclean contains the entries for which operators have decided on an unclean election.
		unclean map[string]bool
		writes  tally
	}
}

type storedVersion struct {
	version int64
	set     *v1alpha1.PartitionSet
}

// errCompacted is the API server's response 410 Gone to a watch.
var errCompacted = errors.New("the version is too old")

func newObjectStore(w *world) *objectStore {
	s := &objectStore{w: w}
	s.mu.sets = map[string]*v1alpha1.PartitionSet{}
	s.mu.decoded = map[string]*partitionset.Set{}
	s.mu.random = rand.New(rand.NewPCG(w.seed, 7))
	s.mu.changed = make(chan struct{})
	s.mu.unclean = map[string]bool{}
	return s
}

// notify wakes all goroutines that wait for a change.
func (s *objectStore) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifyLocked()
}

func (s *objectStore) notifyLocked() {
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// putLocked stores a new version of a set.
func (s *objectStore) putLocked(set *v1alpha1.PartitionSet) *v1alpha1.PartitionSet {
	s.mu.version++
	set.ResourceVersion = strconv.FormatInt(s.mu.version, 10)
	s.mu.sets[set.Name] = set
	s.mu.history = append(s.mu.history, storedVersion{s.mu.version, set})
	if s.mu.random.IntN(16) == 0 {
		s.mu.compacted = s.mu.version - s.mu.random.Int64N(4)
	}
	s.notifyLocked()
	return set
}

// create stores a new set.
func (s *objectStore) create(set *v1alpha1.PartitionSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set.Name = v1alpha1.PartitionSetName(set.Spec.Cluster, set.Spec.Index)
	s.mu.decoded[set.Name], _ = partitionset.Decode(set, nil)
	s.putLocked(set)
}

func (s *objectStore) get(name string) (*v1alpha1.PartitionSet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.mu.sets[name]; set != nil {
		return set, nil
	}
	return nil, commit.ErrNotFound
}

// names returns the names of all sets in order.
func (s *objectStore) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.mu.sets))
}

// list returns all sets and their version. If stale is set, it returns an earlier version, which
// the watch cache of another API server may still have.
func (s *objectStore) list(stale bool) (sets []*v1alpha1.PartitionSet, version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version = s.mu.version
	if stale {
		version = max(int64(len(s.mu.sets)), version-s.mu.random.Int64N(20))
	}
	latest := map[string]*v1alpha1.PartitionSet{}
	for _, v := range s.mu.history {
		if v.version <= version {
			latest[v.set.Name] = v.set
		}
	}
	for _, set := range latest {
		sets = append(sets, set)
	}
	return sets, version
}

// since returns the events after a version, and a channel that will be closed at the next change.
func (s *objectStore) since(version int64) ([]storedVersion, chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < s.mu.compacted {
		return nil, s.mu.changed, errCompacted
	}
	index, _ := slices.BinarySearchFunc(s.mu.history, version+1,
		func(v storedVersion, version int64) int { return int(v.version - version) })
	return slices.Clone(s.mu.history[index:]), s.mu.changed, nil
}

// update replaces the spec or the status of a set by compare-and-swap.
func (s *objectStore) update(next *v1alpha1.PartitionSet, spec bool) (*v1alpha1.PartitionSet,
	error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.mu.sets[next.Name]
	if stored.ResourceVersion != next.ResourceVersion {
		s.mu.writes.conflicts++
		if !s.acceptStale {
			return nil, commit.ErrConflict
		}
	}
	changed := stored.DeepCopy()
	if spec {
		changed.Spec = *next.Spec.DeepCopy()
	} else {
		changed.Status = *next.Status.DeepCopy()
	}
	s.checkLocked(changed)
	s.mu.writes.writes++
	return s.putLocked(changed), nil
}

// change changes a set at once, on behalf of an administrator or to prepare a run.
func (s *objectStore) change(name string, spec bool, change func(*partitionset.Set)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.mu.decoded[name].Clone()
	change(set)
	next := s.mu.sets[name].DeepCopy()
	if spec {
		set.EncodeSpec(next)
	} else {
		set.EncodeStatus(next)
	}
	s.checkLocked(next)
	s.putLocked(next)
}

// checkLocked verifies the changes that a write makes to each entry, and passes them to the oracle.
func (s *objectStore) checkLocked(next *v1alpha1.PartitionSet) {
	before := s.mu.decoded[next.Name]
	after, faults := partitionset.Decode(next, before)
	if len(faults) > 0 {
		s.w.fail("PartitionSet %s: %v", next.Name, faults)
	}
	s.mu.decoded[next.Name] = after
	s.w.checkChange(before, after, func(key partitionset.Key, _, has *partitionset.State) bool {
		return s.mu.unclean[uncleanKey(key, *has)]
	})
}

// checkChange verifies the changes that a write makes to each entry of a set, and passes them to
// the oracle. Parameter unclean reports whether an entry's change is an unclean election.
func (w *world) checkChange(before, after *partitionset.Set,
	unclean func(key partitionset.Key, had, has *partitionset.State) bool) {
	strict := !w.store.acceptStale
	for _, key := range after.Keys() {
		had, _ := before.Get(key)
		has, _ := after.Get(key)
		if reflect.DeepEqual(had.State, has.State) {
			continue
		}
		if has.State == nil {
			if strict {
				w.fail("%s: the state was removed", key)
			}
			continue
		}
		if had.State != nil && strict {
			w.checkEntry(key, *had.State, *has.State)
		}
		if t := w.meta.topicNamed(key.Topic); t != nil {
			w.changed(t, placedOf(had), placedOf(has), unclean(key, had.State, has.State))
		}
	}
	for _, key := range before.Keys() {
		if _, exists := after.Get(key); !exists && strict {
			w.fail("%s: the entry was removed", key)
		}
	}
}

// checkEntry verifies a change of an entry.
func (w *world) checkEntry(key partitionset.Key, had, has partitionset.State) {
	switch {
	case has.Changes <= had.Changes:
		w.fail("%s: the write replaces change %d by change %d: %+v, %+v", key, had.Changes,
			has.Changes, had, has)
	case has.LeaderEpoch < had.LeaderEpoch:
		w.fail("%s: the leader epoch decreases from %d to %d", key, had.LeaderEpoch,
			has.LeaderEpoch)
	case has.LeaderEpoch == had.LeaderEpoch && has.Leader != had.Leader:
		w.fail("%s: the leader of epoch %d changes from %d to %d", key, had.LeaderEpoch,
			had.Leader, has.Leader)
	}
}

// uncleanKey identifies a decision.
func uncleanKey(key partitionset.Key, state partitionset.State) string {
	return fmt.Sprint(key, state)
}

// decidedUnclean records that an operator has decided on an unclean election.
func (s *objectStore) decidedUnclean(key partitionset.Key, state partitionset.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.unclean[uncleanKey(key, state)] = true
}

// placedOf returns a partition with a target only if a reassignment is in progress.
func placedOf(entry partitionset.Entry) placement.Partition {
	p := entry.Placed()
	if slices.Equal(p.Target, p.Replicas) {
		p.Target = nil
	}
	return p
}

// placed returns the stored state of a partition.
func (s *objectStore) placed(t *topic) placement.Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, _ := s.mu.decoded[t.set].Get(t.key())
	return placedOf(entry)
}
