package balance

import (
	"cmp"
	"slices"
	"strings"
)

// Broker is a broker of the cluster.
type Broker struct {
	ID   int32  // unique within a Cluster
	Rack string // "" if unknown; all brokers without a rack form one rack
	// Capacity is the size of the broker's volume in bytes. If it is 0 (unknown), the planner does not
	// limit disk usage.
	Capacity int64
	// Other is the number of bytes on the volume that do not belong to replicas in Cluster.Partitions.
	Other    int64
	Cordoned bool // true if the broker gets no more replicas (KIP-1066)
	Draining bool // true if all replicas must leave the broker
	// Removed is true if the broker is being removed. The rack of a removed broker does not count in
	// the number of racks. The rack of a broker that is only draining counts, because that broker may
	// return: a drain must not make replicas share racks.
	Removed bool
}

// Partition is a partition and its replicas.
type Partition struct {
	Topic    string // Topic and Index identify the partition.
	Index    int32
	Bytes    int64   // size of one replica, >= 0
	Rate     int64   // number of bytes per second that producers append, >= 0
	Replicas []int32 // ids of distinct brokers in Cluster.Brokers, the preferred leader first
	// Fixed is true if the partition must not be moved, for example because a move is in progress.
	Fixed bool
	// KeepLeader is true if the preferred leader must not change for the goals LeaderRate and Leaders.
	// A copy for another goal may replace the leader's replica.
	KeepLeader bool
}

// Cluster is the input of a plan. The planner does not modify it.
type Cluster struct {
	Brokers    []Broker
	Partitions []Partition
	// AnywayPercent, if not 0, applies to replicas that would otherwise remain on draining brokers:
	// they may fill disks up to this percentage, and may share racks. Only plans with
	// Options.DrainOnly use it.
	AnywayPercent int64
}

// Goal is the purpose of a move. The constants are in order of priority, the highest first.
type Goal int

const (
	// Drain removes replicas from draining brokers.
	Drain Goal = iota
	// Racks spreads the replicas of each partition evenly across as many racks as possible.
	Racks
	// Capacity keeps the used bytes on each broker's disk below Options.CapacityPercent of the disk's
	// size.
	Capacity
	// Disk keeps the number of bytes on each broker near the mean.
	Disk
	// LeaderRate keeps the number of bytes per second that each broker receives from producers near
	// the mean.
	LeaderRate
	// TopicReplicas prevents a topic from having most of its replicas on few brokers.
	TopicReplicas
	// Leaders keeps the number of partitions that each broker leads near the mean.
	Leaders

	goals
)

var goalNames = [goals]string{"Drain", "Racks", "Capacity", "Disk", "LeaderRate", "TopicReplicas",
	"Leaders"}

// String returns the goal's name.
func (g Goal) String() string { return goalNames[g] }

// Potential contains, for each goal, the cluster's distance from the goal. It is 0 if the goal is
// reached.
type Potential [goals]int64

// Compare compares two potentials goal by goal, starting with the goal of the highest priority.
func (p Potential) Compare(q Potential) int { return slices.Compare(p[:], q[:]) }

// Move is one change of a partition's replicas.
type Move struct {
	Partition int     // index of the partition in Cluster.Partitions
	Replicas  []int32 // replicas after the move, the preferred leader first
	// From is the broker that loses a replica, and To is the broker that gets it. If the move copies
	// nothing, From is the current and To the new preferred leader.
	From, To int32
	Copy     bool // true if a replica is copied, false if only the preferred leader changes
	Goal     Goal
	// Anyway is true if the move may violate the goals Racks and Capacity, as Cluster.AnywayPercent
	// permits.
	Anyway bool
}

// Blocked is a replica on a draining broker that the plan does not move.
type Blocked struct {
	Partition int // index of the partition in Cluster.Partitions
	Broker    int32
	// Goal is the goal that prevents the move; Drain if every other broker already has a replica of
	// the partition.
	Goal Goal
}

// Plan is an ordered list of moves.
type Plan struct {
	Moves []Move
	// Blocked contains the replicas that remain on draining brokers, except replicas of fixed
	// partitions.
	Blocked []Blocked
	// Before and After are the cluster's potentials before and after the moves.
	Before, After Potential
}

// Options contains limits for a plan. The zero value selects the defaults.
type Options struct {
	// TolerancePercent is how far, in percent of the mean, a broker may be from the mean for the goals
	// Disk, LeaderRate and Leaders; default 10.
	TolerancePercent int64
	// CapacityPercent is the maximum disk usage of a broker in percent; default 80.
	CapacityPercent int64
	// DrainOnly restricts the plan to moves for the goal Drain.
	DrainOnly bool
}

// replicaBytes is added to the size of each replica, so that replicas of empty partitions are
// balanced by number.
const replicaBytes = 4 << 10

// New returns the moves that balance a cluster.
func New(cluster Cluster, options Options) Plan {
	p := newPlanner(cluster, options)
	plan := Plan{Before: p.potential()}
	for p.round() { // a move for a later goal can make another move for an earlier goal possible
	}
	if p.relax() {
		for p.round() {
		}
	}
	plan.Moves, plan.After, plan.Blocked = p.moves, p.potential(), p.blocked()
	return plan
}

// Evaluate returns the potential of a cluster.
func Evaluate(cluster Cluster, options Options) Potential {
	return newPlanner(cluster, options).potential()
}

// relax permits partitions whose replicas remain on draining brokers to violate the goals Racks and
// Capacity. It returns true if the input allows this and there are such partitions. It does not
// relax partitions that can leave within the limits.
func (p *planner) relax() (relaxed bool) {
	if !p.options.DrainOnly || p.anywayPercent == 0 {
		return false
	}
	for b := range p.brokers {
		if !p.brokers[b].Draining {
			continue
		}
		for _, partition := range p.held[b] {
			partition.anyway, relaxed = true, true
		}
	}
	return relaxed
}

// round makes moves for each goal until no move is possible. It reports whether it has made a move.
func (p *planner) round() bool {
	before := len(p.moves)
	last := goals - 1
	if p.options.DrainOnly {
		last = Drain
	}
	for goal := Drain; goal <= last; goal++ {
		for p.step(goal) {
		}
	}
	return len(p.moves) > before
}

// step makes one move for a goal. It returns false if there is none.
func (p *planner) step(goal Goal) bool {
	if p.state[goal] == 0 {
		return false
	}
	var found candidate
	switch goal {
	case Drain:
		found = p.searchDrain()
	case Racks:
		found = p.searchRacks()
	case Capacity, Disk:
		found = p.searchDisk(goal)
	case TopicReplicas:
		found = p.searchTopic()
	case LeaderRate, Leaders:
		found = p.searchLeader(goal)
	}
	if found.partition == nil {
		return false
	}
	p.apply(found, goal)
	return true
}

// compareKeys orders partitions by topic and index, so that their order in the input does not
// matter.
func compareKeys(a, b *partition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}
