package rollout

// Broker is the state of a broker's pod during a rolling update. The zero value is a missing pod.
type Broker struct {
	Updated bool // the pod has the latest template
	Ready   bool // the pod is ready and not being deleted
	// Settling is true if the pod has become ready recently: clients may still use the address of
	// the broker's previous pod.
	Settling bool
}

// State is the state of a LogCluster's pods and partitions.
type State struct {
	Brokers         []Broker // by ordinal
	UnderReplicated int32    // number of partitions with a replica that is not in sync
	// Held is the StatefulSet's present rollingUpdate.partition: the StatefulSet controller updates
	// pods whose ordinal is at least Held.
	Held int32
	// Observed is true if the StatefulSet controller has observed the latest spec. Otherwise the
	// StatefulSet's status refers to an earlier template.
	Observed bool
}

// Held returns the rollingUpdate.partition that the StatefulSet should have. During an update, it
// decreases one by one from the number of brokers, so the pod with the highest ordinal is updated
// first. When the update is complete, it is the number of brokers again, so that a later change of
// the template does not replace pods by itself.
//
// Invariant: a ready broker is restarted only while all other brokers are ready and not settling,
// and all replicas are in sync. So a rolling update never makes more than one replica of a
// partition unavailable, and every partition has a leader that clients can find. A broker that is
// not ready, or whose pod is being deleted, serves no clients and may be restarted at any time.
// Otherwise it would be impossible to replace a broken template.
func Held(s State) int32 {
	count := int32(len(s.Brokers))
	next := nextToUpdate(s.Brokers)
	switch {
	case !s.Observed:
		return min(s.Held, count)
	case next < 0 && allReady(s.Brokers):
		return count
	// All pods have the latest template, but some are not ready. Held stays, because a higher value
	// would let a failed pod be created again from the previous template.
	case next < 0:
		return min(s.Held, count)
	case !s.Brokers[next].Ready,
		s.UnderReplicated == 0 && allReady(s.Brokers) && !anySettling(s.Brokers):
		return next
	}
	return next + 1
}

// nextToUpdate returns the highest ordinal of a pod without the latest template, or -1 if all pods
// have the latest template.
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

// Waiting reports whether a rolling update has pods left to update but may not continue now (result
// waits). Result next is the ordinal of the pod with which the update continues, or -1 if all pods
// are updated.
func Waiting(s State) (next int32, waits bool) {
	next = nextToUpdate(s.Brokers)
	return next, next >= 0 && Held(s) > next
}
