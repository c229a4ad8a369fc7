package rollout

// Broker is a broker's pod during a rolling update. The zero value is a missing pod.
type Broker struct {
	Updated bool // it has the latest template
	Ready   bool // it is ready and not being deleted
	// Settling reports that it has just become ready: clients may still use the address of its
	// previous pod.
	Settling bool
}

// State is the state of a LogCluster's pods and partitions.
type State struct {
	Brokers         []Broker // by ordinal
	UnderReplicated int32    // partitions with a replica that is not in sync
	// Held is the StatefulSet's present rollingUpdate.partition: its controller updates pods from
	// that ordinal on.
	Held int32
	// Observed reports that the StatefulSet controller has observed the latest spec. Otherwise what
	// it reports about pods concerns an earlier template.
	Observed bool
}

// Held returns the rollingUpdate.partition that the StatefulSet should have. It decreases by one
// pod at a time, from the highest ordinal, and returns to the number of brokers when the update is
// complete, so that a new template starts nothing by itself.
//
// Invariant: a serving broker is restarted only while all others are ready and not settling and
// every replica is in sync. So every partition has a leader that clients can find, and no partition
// lacks more than one replica because of a rolling update. A broker that is not ready serves
// nothing and may be restarted at any time; otherwise a broken template could not be replaced by
// another one. The same holds for a pod that is already being deleted.
func Held(s State) int32 {
	count := int32(len(s.Brokers))
	next := nextToUpdate(s.Brokers)
	switch {
	case !s.Observed:
		return min(s.Held, count)
	case next < 0 && allReady(s.Brokers):
		return count
	// A pod that fails before it is ready must be created again from the latest template, and not
	// from the previous one.
	case next < 0:
		return min(s.Held, count)
	case !s.Brokers[next].Ready,
		s.UnderReplicated == 0 && allReady(s.Brokers) && !anySettling(s.Brokers):
		return next
	}
	return next + 1
}

// nextToUpdate returns the highest ordinal without the latest template, -1 if there is none.
func nextToUpdate(brokers []Broker) int32 {
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

func anySettling(brokers []Broker) bool {
	for _, b := range brokers {
		if b.Settling {
			return true
		}
	}
	return false
}

// Waiting reports whether a rolling update is waiting, and the ordinal that it continues with; next
// is -1 if there is none.
func Waiting(s State) (next int32, waits bool) {
	next = nextToUpdate(s.Brokers)
	return next, next >= 0 && Held(s) > next
}
