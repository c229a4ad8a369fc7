package placement

import "slices"

// Stop describes a partition for MayStop.
type Stop struct {
	Replicas []int32 // ids of the brokers that hold a replica
	InSync   []int32 // distinct ids of ISR brokers that are up
	MinISR   int     // value of min.insync.replicas, at least 1
}

// MayStop reports whether the partition continues to serve producers with acks=all while the given
// broker is stopped, because enough replicas on other brokers are in sync. A broker with a replica
// that is not in sync may be stopped, unless the partition has too few in-sync replicas and waits
// for it.
//
// MayStop requires at most as many in-sync replicas on other brokers as there are other replicas.
// So a partition with a single replica permits every stop. A partition that needs all its replicas
// permits a stop while all the others are in sync; it is unavailable during the stop.
func (p Stop) MayStop(broker int32) bool {
	if len(p.Replicas) == 1 || !slices.Contains(p.Replicas, broker) {
		return true
	}
	if !slices.Contains(p.InSync, broker) {
		return len(p.InSync) >= min(p.MinISR, len(p.Replicas))
	}
	return len(p.InSync)-1 >= min(p.MinISR, len(p.Replicas)-1)
}
