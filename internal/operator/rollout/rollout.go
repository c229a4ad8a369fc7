package rollout

// Broker is a broker's pod, as a rollout looks at it. The zero value is a pod that is not there.
type Broker struct {
	Updated bool // it is of the latest template
	Ready   bool // and not being deleted
	// it became ready a moment ago: clients may look for it still where its last pod was
	New bool
}

// State is a cluster's pods, and how its partitions are.
type State struct {
	Brokers         []Broker // by ordinal
	UnderReplicated int32    // partitions that have not all their replicas in sync
	// Partition is the StatefulSet's present one: pods from that ordinal on are brought to the
	// latest template, by its controller.
	Partition int32
	// Settled: the StatefulSet's controller has seen all that was applied. What it says of pods is
	// of an earlier template otherwise.
	Settled bool
}

// Partition returns the partition that the StatefulSet should have. It goes down by one pod at a
// time, the highest ordinal first, and up to the number of brokers when nothing is to be done: so a
// new template starts nothing by itself.
//
// Invariant: the next broker that serves is restarted only while all others are ready, have been
// for a while, and every replica is in sync; thus somebody leads whom clients find, and no
// partition has more than one replica fewer than it should because of a rollout. A broker that is
// not ready serves nothing, and goes at any time: else a template that does not work could not be
// mended by another. So does one whose pod is being deleted: it is under way.
func Partition(s State) int32 {
	count := int32(len(s.Brokers))
	next := nextOf(s.Brokers)
	switch {
	case !s.Settled:
		return min(s.Partition, count)
	case next < 0 && allReady(s.Brokers):
		return count
	// one that ends before it is ready must come back with the latest template, and not the one
	// before
	case next < 0:
		return min(s.Partition, count)
	case !s.Brokers[next].Ready,
		s.UnderReplicated == 0 && allReady(s.Brokers) && !anyNew(s.Brokers):
		return next
	}
	return next + 1
}

// nextOf is the highest ordinal that is not of the latest template; -1: all are.
func nextOf(brokers []Broker) int32 {
	for at := len(brokers) - 1; at >= 0; at-- {
		if !brokers[at].Updated {
			return int32(at)
		}
	}
	return -1
}

func allReady(brokers []Broker) bool {
	for _, b := range brokers {
		if !b.Ready {
			return false
		}
	}
	return true
}

func anyNew(brokers []Broker) bool {
	for _, b := range brokers {
		if b.New {
			return true
		}
	}
	return false
}

// Waiting tells whether a rollout waits, and the ordinal it goes on with; next is -1 when there is
// none.
func Waiting(s State) (next int32, waits bool) {
	next = nextOf(s.Brokers)
	return next, next >= 0 && Partition(s) > next
}
