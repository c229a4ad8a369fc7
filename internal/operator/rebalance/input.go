package rebalance

import (
	"slices"
	"strconv"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Input contains everything that a decision depends on.
type Input struct {
	Now time.Time
	// Cluster is the LogCluster. Only the brokers' volumes are used from its status.
	Cluster *v1alpha1.LogCluster
	Run     Run // state after the last decision
	// Racks contains the racks of brokers, if known.
	Racks map[int32]string
	// Used is the total size of all replicas on each broker, in bytes.
	Used       map[int32]int64
	Partitions []Partition
	// Held is the number of partitions that have a replica on each broker, or are assigned to it. It
	// includes partitions that are not in Partitions, such as partitions without a state.
	Held map[int32]int
	// Retained is the number of retained partitions of deleted topics with a replica on a broker in
	// spec.drain. They do not move.
	Retained int
	// Invalid contains partitions whose entries cannot be parsed, sorted.
	Invalid []string
	// Down contains the brokers that are not up.
	Down map[int32]bool
	// Silent contains the brokers that have not reported the sizes of their replicas.
	Silent map[int32]bool
	// Obstacle is the reason why no move can begin; "" if moves can begin. A broker in spec.drain that
	// is down is not an obstacle, because its replicas are copied from other brokers.
	Obstacle string
}

// Run is the state of the current or last run. After a restart of the operator, only its status
// remains.
type Run struct {
	v1alpha1.RebalanceStatus
	// Targets are the decided assignments of the partitions in Moving. They replace the assignments in
	// Input until the cache contains them.
	Targets map[string]Target
	// Completed is the number of bytes of completed moves.
	Completed int64
	// Speed is the speed at which the run copies.
	Speed Speed
	// Led contains the times at which the run has changed preferred leaders, by partition key.
	Led map[string]time.Time
	// Waits contains the times since which partitions have waited for the cleaner to remove garbage.
	Waits map[string]time.Time
	// Passes contains the times since which partitions have waited for the end of a pass on the broker
	// that will lose the replica.
	Passes map[string]time.Time
	// Checked is the time of the last balance check for policy Continuous.
	Checked time.Time
}

// Target is a decided assignment.
type Target struct {
	Replicas []int32
	At       time.Time
	Bytes    int64 // bytes to copy; 0 if only the preferred leader changes
}

// Partition is a partition of an existing Topic.
type Partition struct {
	Topic    string // name of the Topic resource
	Index    int32
	Assigned []int32 // assigned brokers, preferred leader first
	// Replicas are the brokers that have a replica. During a reassignment, the brokers of the previous
	// assignment come first.
	Replicas []int32
	Leader   int32
	Bytes    int64           // size of the leader's log, or of the largest known replica
	Rate     int64           // bytes per second that producers append; -1: unknown
	Sizes    map[int32]int64 // size of each replica
	// Reclaimable is the number of bytes that the cleaner can remove; 0 if it is unknown or the topic
	// is not compacted.
	Reclaimable int64
	// Cleaning contains the brokers on which the cleaner is rewriting the log.
	Cleaning []int32
	// Fixed is true if the partition cannot be moved, because its entry is invalid or the Topic
	// needs another number of replicas.
	Fixed bool
}

// Key is the partition's name in the status and in the PartitionSet.
func (p *Partition) Key() string { return p.Topic + "/" + strconv.Itoa(int(p.Index)) }

// reassigning reports whether the replicas differ from the assignment.
func (p *Partition) reassigning() bool {
	return len(p.Replicas) > 0 && !slices.Equal(p.Replicas, p.Assigned)
}

// adding returns the brokers that are copying the partition.
func (p *Partition) adding() (brokers []int32) {
	origin := p.origin()
	for _, id := range p.Assigned {
		if !slices.Contains(origin, id) {
			brokers = append(brokers, id)
		}
	}
	return brokers
}

// origin returns the assignment before the current reassignment.
func (p *Partition) origin() []int32 { return p.Replicas[:min(len(p.Replicas), len(p.Assigned))] }

// copied returns the size in bytes of the smallest of the new replicas.
func (p *Partition) copied() int64 {
	fewest := int64(-1)
	for _, id := range p.adding() {
		if size := p.Sizes[id]; fewest < 0 || size < fewest {
			fewest = size
		}
	}
	return min(max(0, fewest), p.Bytes)
}

// Change is a new assignment of a partition.
type Change struct {
	Partition     int // index in Input.Partitions
	Before, After []int32
}

// Decision contains the actions that a decision requires.
type Decision struct {
	Run    Run
	Assign []Change
	Clean  []int // indexes of partitions that must be cleaned before they move
	// Drained describes the brokers in spec.drain.
	Drained Drained
	// Again is the time until the next decision is due even if nothing changes; 0: none is due.
	Again time.Duration
}

// Drained is the state of the drain of brokers.
type Drained struct {
	Requested []int32 // spec.drain, sorted
	// Remaining is the number of replicas on these brokers. A partition with an invalid entry counts
	// as one replica.
	Remaining int
	Retained  int // Input.Retained
	// Obstacle is the reason why replicas cannot leave, and what to do; "" if they can leave.
	Obstacle string
	// Waits is the reason why the drain is waiting: Input.Obstacle, or an annotation that prevents all
	// runs.
	Waits string
}
