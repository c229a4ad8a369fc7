package assignment

import (
	"slices"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/refusal"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// input is the complete, immutable input of a plan.
type input struct {
	cluster *v1alpha1.LogCluster // nil if it does not exist
	topics  []*v1alpha1.Topic    // Topics of the LogCluster
	racks   map[int32]brokerRack // by broker id, for each registered broker
	// racksAwaited is the time for which new partitions still have to wait for racks; 0 if they do not
	// wait.
	racksAwaited time.Duration
	sets         *sets.Cluster
	disks        disks
	// awaitsSizes is true while the removal of brokers waits for sizes that are unknown.
	awaitsSizes bool
}

// plan contains the changes of one pass.
type plan struct {
	assign []assignmentChange
	// removed are the partitions whose states are to be removed. retired are the partitions that lose
	// their leaders before another Topic adopts them.
	removed, retired []partitionset.Key
	// taken contains the Topics whose requested reassignments are written already. Their annotations
	// are to be removed.
	taken []*v1alpha1.Topic
	waits bool // true if new partitions wait for racks
	// begun contains the deleted topics that have at least one partition whose records are being
	// removed. Their other partitions must follow, because otherwise a new Topic could adopt only a
	// part of the records.
	begun   map[v1alpha1.GivenUp]bool
	removal conditions.Removal
	unsized bool // true if sizes of partitions on brokers that are to be removed are unknown
}

// begins reports whether a change begins the removal of the records of a deleted topic.
func (p *plan) begins(change assignmentChange) bool {
	return change.after != nil && change.after.Reclaim == partitionset.Remove &&
		!p.begun[v1alpha1.GivenUp{Topic: change.key.Topic, ID: change.after.Tag}]
}

// assignmentChange replaces the assignment of a partition.
type assignmentChange struct {
	key    partitionset.Key
	before *partitionset.Assignment // nil: the partition has no assignment
	after  *partitionset.Assignment // nil: the assignment is removed
}

// planner is a plan in progress.
type planner struct {
	input
	plan
	load   map[int32]int // number of assigned replicas of each broker, without retained ones
	owners map[string]owner
	oldest map[string]*v1alpha1.Topic // by Kafka name
	// colliding maps each metadata.CollisionKey to the oldest Topic with this key.
	colliding map[string]*v1alpha1.Topic
	// keepsRemoved is true if replicas stay on brokers that are to be removed.
	keepsRemoved bool
	leaves       bool            // true if replicas leave such brokers
	full         []string        // Topics whose replicas cannot leave because other brokers are Full
	free         map[int32]int64 // free space of each broker; see fitDisks
}

// owner is a Topic to which entries may belong.
type owner struct {
	topic   *v1alpha1.Topic
	tag     string
	refused bool
}

// makePlan makes a plan (see newPlan). It assigns older Topics first.
func makePlan(in input, keepsRemoved bool) *planner {
	p := &planner{input: in, load: map[int32]int{}, owners: map[string]owner{},
		oldest: map[string]*v1alpha1.Topic{}, colliding: map[string]*v1alpha1.Topic{},
		keepsRemoved: keepsRemoved}
	p.begun = map[v1alpha1.GivenUp]bool{}
	for key, entry := range in.sets.All() {
		if a := entry.Assignment; a != nil && !a.Reclaim.Orphaned() {
			p.addLoad(a.Replicas)
		} else if a != nil && a.Reclaim == partitionset.Remove {
			p.begun[v1alpha1.GivenUp{Topic: key.Topic, ID: a.Tag}] = true
		}
	}
	p.topics = slices.SortedFunc(slices.Values(in.topics), func(a, b *v1alpha1.Topic) int {
		if a.OlderThan(b) {
			return -1
		}
		return 1
	})
	for _, topic := range p.topics {
		if p.oldest[topic.KafkaName()] == nil {
			p.oldest[topic.KafkaName()] = topic
		}
		if collides := metadata.CollisionKey(topic.KafkaName()); p.colliding[collides] == nil {
			p.colliding[collides] = topic
		}
	}
	for _, topic := range p.topics {
		o := owner{topic: topic, tag: sets.Tag(topic.UID)}
		o.refused = !p.assignTopic(o)
		p.owners[topic.Name] = o
	}
	p.reclaimOrphans()
	return p
}

func (p *planner) addLoad(replicas []int32) {
	for _, broker := range replicas {
		p.load[broker]++
	}
}

// work is the remaining work for a Topic. All maps are by partition.
type work struct {
	// new partitions; the value is the entry to replace, or nil
	fresh   map[int32]*partitionset.Assignment
	current map[int32]partitionset.Assignment  // assignments that the Topic keeps or adopts
	before  map[int32]*partitionset.Assignment // the entries of current
	lent    map[int32]bool                     // true for partitions with a lent replica
	blocked []partitionset.Key                 // retained partitions that still have a leader
	deleted []partitionset.Key                 // states of an earlier Topic without its records
}

// assignTopic plans the assignments of a Topic. It returns false if it refuses the Topic.
func (p *planner) assignTopic(o owner) bool {
	w := p.gather(o)
	moves := map[int32][]int32(nil)
	if p.cluster != nil && o.topic.Annotations[v1alpha1.AnnotationReassign] != "" {
		moves, _ = refusal.Reassignments(o.topic, p.cluster) // the topic controller reports errors
	}
	if p.settled(o, w) && len(moves) == 0 {
		return true
	}
	in := refusal.Input{Topic: o.topic, Cluster: p.cluster,
		IsNew: func(index int32) bool { _, fresh := w.fresh[index]; return fresh }}
	if oldest := p.oldest[o.topic.KafkaName()]; oldest != o.topic {
		in.Older = oldest
	}
	if oldest := p.colliding[metadata.CollisionKey(o.topic.KafkaName())]; oldest != o.topic {
		in.Colliding = oldest
	}
	if refusal.Check(in) != nil {
		return false
	}
	p.removed, p.retired = append(p.removed, w.deleted...), append(p.retired, w.blocked...)
	p.assignFresh(o, w)
	p.move(o, w, moves)
	p.fit(o, w)
	for _, index := range sorted(w.current) {
		p.change(key(o.topic, index), w.before[index], w.current[index])
	}
	return true
}

// gather classifies the entries of a Topic's partitions.
func (p *planner) gather(o owner) work {
	w := work{fresh: map[int32]*partitionset.Assignment{},
		current: map[int32]partitionset.Assignment{},
		before:  map[int32]*partitionset.Assignment{}, lent: map[int32]bool{}}
	for index := range o.topic.Spec.Partitions {
		key := key(o.topic, index)
		if p.sets.Invalid(key) {
			continue // a person must correct the entry
		}
		entry := p.sets.Get(key)
		a, state := entry.Assignment, entry.State
		switch {
		case a == nil && state == nil:
			w.fresh[index] = nil
		case a == nil:
			w.keep(o, index, nil, state.Replicas)
		case a.Tag == o.tag:
			w.keep(o, index, a, a.Replicas)
			w.lent[index] = entry.Lent
		case p.removing(key, entry):
			// Once the brokers have removed the records, the partition counts as new. If it were assigned
			// before, a broker that still has the records would continue with them.
		case a.Reclaim == partitionset.Delete && state != nil:
			w.deleted = append(w.deleted, key)
		case a.Reclaim == partitionset.Delete:
			w.fresh[index] = a
		case state != nil && state.Leader != placement.NoLeader:
			w.blocked = append(w.blocked, key)
		default:
			w.keep(o, index, a, a.Replicas)
		}
	}
	return w
}

// keep records that a partition keeps its replicas. The new assignment has the id and the reclaim
// policy of the Topic.
func (w work) keep(o owner, index int32, before *partitionset.Assignment, replicas []int32) {
	w.before[index], w.current[index] = before, o.assignment(replicas)
}

// assignment returns an assignment of a partition of the Topic to replicas.
func (o owner) assignment(replicas []int32) partitionset.Assignment {
	a := partitionset.Assignment{Replicas: replicas, Tag: o.tag}
	if o.topic.Spec.ReclaimPolicy == v1alpha1.ReclaimDelete {
		a.Reclaim = partitionset.Delete
	}
	return a
}

// settled reports whether a Topic requires no change.
func (p *planner) settled(o owner, w work) bool {
	if len(w.fresh)+len(w.blocked)+len(w.deleted) > 0 {
		return false
	}
	for index, a := range w.current {
		before := w.before[index]
		if before == nil || before.Tag != a.Tag || before.Reclaim != a.Reclaim ||
			p.cluster != nil && !p.hasValidReplicas(o, w, index) {
			return false
		}
	}
	return true
}

// replicas returns the required number of replicas of a Topic's partitions.
func (p *planner) replicas(o owner) int {
	return metadata.Replicas(o.topic.Spec.TopicSettings, p.cluster)
}

// hasValidReplicas reports whether a partition has as many replicas as the Topic requests, not
// counting one that is lent during a rolling update. No replica may be on a broker that is to be
// removed, unless replicas stay there. All other brokers are valid, because a user may have moved
// the replicas.
func (p *planner) hasValidReplicas(o owner, w work, index int32) bool {
	replicas, want := w.current[index].Replicas, p.replicas(o)
	if w.lent[index] && want == 1 && slices.Equal(replicas, w.before[index].Replicas) {
		want++
	}
	return len(replicas) == want && (p.keepsRemoved || !p.isRemoved(replicas))
}

// assignFresh assigns new partitions. A partition with an entry in spec.initialReplicas gets the
// replicas of the entry. The entry and the number of partitions are in the same version of the
// Topic. Therefore the operator reads the entry before it can assign the partition. One call of
// placement.Assign assigns all other new partitions with adjacent indexes.
//
// All brokers of the LogCluster's spec are candidates, even those that are down: an assignment is
// permanent, so the current state of brokers must not affect it. Only brokers whose volumes are
// almost full get no new replicas. While racks of brokers are unknown, new partitions wait for
// them, except partitions with an entry in spec.initialReplicas.
func (p *planner) assignFresh(o owner, w work) {
	isNew := func(index int32) bool { _, fresh := w.fresh[index]; return fresh }
	initial, err := metadata.InitialReplicas(&o.topic.Spec, p.cluster, p.cluster.Spec.Brokers, isNew)
	if err != nil {
		return // impossible: the Topic would be refused
	}
	for index := int32(0); index < o.topic.Spec.Partitions; {
		if replicas := initial[index]; replicas != nil && isNew(index) {
			p.create(o, w, index, replicas)
			index++
			continue
		}
		next := index
		for next < o.topic.Spec.Partitions && isNew(next) && initial[next] == nil {
			next++
		}
		if next == index {
			index++
			continue
		}
		if p.racksAwaited > 0 && racksMatter(p.replicas(o), p.cluster.Spec.Brokers) {
			p.waits, index = true, next
			continue
		}
		assigned, err := placement.Assign(p.brokers(o), p.load, int(index), int(next-index),
			p.replicas(o))
		if err != nil {
			return // impossible: the Topic would be refused
		}
		for _, replicas := range assigned {
			p.create(o, w, index, replicas)
			index++
		}
	}
}

// create adds the assignment of a new partition to the plan and to the load.
func (p *planner) create(o owner, w work, index int32, replicas []int32) {
	p.change(key(o.topic, index), w.fresh[index], o.assignment(replicas))
	p.addLoad(replicas)
}

// move applies requested reassignments to assigned partitions. A request is complete once all its
// partitions are assigned as it requests.
func (p *planner) move(o owner, w work, moves map[int32][]int32) {
	taken := len(moves) > 0
	for index, replicas := range moves {
		a, assigned := w.current[index]
		taken = taken && assigned && w.before[index] != nil &&
			slices.Equal(w.before[index].Replicas, replicas)
		if assigned {
			a.Replicas = replicas
			w.current[index] = a
		}
	}
	if taken {
		p.taken = append(p.taken, o.topic)
	}
}

// fit changes the replicas of partitions whose replicas are not valid (hasValidReplicas), because
// the Topic's number of replicas has changed or brokers are to be removed. It moves as few replicas
// as possible. The change only sets the target; the brokers then copy the records (see
// placement.Decide).
func (p *planner) fit(o owner, w work) {
	var invalid []int32
	var current [][]int32
	for _, index := range sorted(w.current) {
		if !p.hasValidReplicas(o, w, index) {
			invalid = append(invalid, index)
			current = append(current, w.current[index].Replicas)
		}
	}
	if len(invalid) == 0 {
		return
	}
	leaves := slices.ContainsFunc(current, p.isRemoved)
	targets, err := placement.FitDisks(p.brokers(o), p.load, current, p.replicas(o),
		p.fitDisks(o, invalid))
	if err != nil { // the volumes of too many brokers are almost full
		if leaves {
			p.full = append(p.full, o.topic.Name)
		}
		return // the pass is repeated when that changes
	}
	p.leaves = p.leaves || leaves
	for i, index := range invalid {
		a := w.current[index]
		a.Replicas = targets[i]
		w.current[index] = a
		p.addLoad(targets[i])
		for _, id := range current[i] {
			p.load[id]--
		}
	}
}

// change adds a changed assignment to the plan, unless it equals the previous one.
func (p *planner) change(key partitionset.Key, before *partitionset.Assignment,
	after partitionset.Assignment) {
	if before == nil || before.Tag != after.Tag || before.Reclaim != after.Reclaim ||
		!slices.Equal(before.Replicas, after.Replicas) {
		p.assign = append(p.assign, assignmentChange{key, before, &after})
	}
}

// brokers returns all brokers that can receive replicas of a Topic, with their racks if these are
// known. An internal topic needs little space, so it is also assigned to brokers whose volumes are
// almost full.
func (p *planner) brokers(o owner) []placement.Broker {
	internal := metadata.InternalTopic(o.topic.KafkaName())
	full := p.cluster.FullBrokers()
	var brokers []placement.Broker
	for id := range p.cluster.Spec.Brokers {
		brokers = append(brokers, placement.Broker{ID: id, Rack: p.racks[id].name,
			Full: full[id] && !internal, Cordoned: !p.cluster.Spec.MayReceive(id)})
	}
	if p.keepsRemoved {
		brokers = append(brokers, p.removedBrokers()...)
	}
	return brokers
}

func key(topic *v1alpha1.Topic, index int32) partitionset.Key {
	return partitionset.Key{Topic: topic.Name, Index: index}
}

// sorted returns the partition indexes in ascending order.
func sorted(m map[int32]partitionset.Assignment) []int32 {
	indexes := make([]int32, 0, len(m))
	for index := range m {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	return indexes
}
