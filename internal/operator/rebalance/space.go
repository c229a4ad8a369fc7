package rebalance

import (
	"maps"
	"math"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement/balance"
)

// PlanInput returns the planner's input for a LogCluster's brokers. For each broker, known contains
// the number of bytes of its replicas among the partitions, and used the number of bytes of all its
// replicas. Bytes on a volume in excess of known, for example of retained partitions, cannot be
// moved. Partitions with replicas on brokers that are being removed are fixed, because the
// assignment controller moves them.
func PlanInput(cluster *v1alpha1.LogCluster, racks map[int32]string, known, used map[int32]int64,
	partitions []balance.Partition) balance.Cluster {
	in := balance.Cluster{Partitions: partitions}
	if len(cluster.Spec.Drain) > 0 && DrainsAnyway(cluster) {
		in.AnywayPercent = anywayPercent(cluster)
	}
	ids := map[int32]bool{}
	for id := range cluster.Spec.Brokers {
		ids[id] = true
	}
	for i := range partitions {
		for _, id := range partitions[i].Replicas {
			ids[id] = true
			partitions[i].Fixed = partitions[i].Fixed || id >= cluster.Spec.Brokers
		}
	}
	spec, full := &cluster.Spec, cluster.FullBrokers()
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		b := balance.Broker{ID: id, Rack: racks[id], Capacity: capacity(cluster, id),
			Other:    max(0, inUse(cluster, id, used[id])-known[id]),
			Cordoned: slices.Contains(spec.Cordoned, id) || full[id],
			Draining: slices.Contains(spec.Drain, id) || id >= spec.Brokers,
			Removed:  id >= spec.Brokers}
		in.Brokers = append(in.Brokers, b)
	}
	return in
}

// CapacityPercent returns the maximum disk usage, in percent, for moves without Move.Anyway.
func CapacityPercent(cluster *v1alpha1.LogCluster) int64 {
	return min(capacityPercent, anywayPercent(cluster))
}

// RemovalPercent returns the maximum disk usage, in percent, for moving the replicas of removed
// brokers.
func RemovalPercent(cluster *v1alpha1.LogCluster) int64 {
	if DrainsAnyway(cluster) {
		return anywayPercent(cluster)
	}
	return CapacityPercent(cluster)
}

// anywayPercent returns the maximum disk usage, in percent, for moves with Move.Anyway. It is just
// below the usage at which the broker rejects records.
func anywayPercent(cluster *v1alpha1.LogCluster) int64 { return rejectsAt(cluster) - 1 }

// DrainsAnyway reports whether the annotation relaxes two limits: a blocked drain or removal of
// brokers may fill disks further, and a blocked drain may place replicas in the same rack.
func DrainsAnyway(cluster *v1alpha1.LogCluster) bool {
	return cluster.Annotations[v1alpha1.AnnotationDrainAnyway] == "true"
}

// FreeSpace returns how many bytes new replicas may add to a broker's volume, up to
// CapacityPercent. It is negative if the usage is higher than that. used is the number of bytes of
// the current replicas. If the volume's size is unknown, FreeSpace returns math.MaxInt64.
func FreeSpace(cluster *v1alpha1.LogCluster, broker int32, used int64) int64 {
	size := capacity(cluster, broker)
	if size == 0 {
		return math.MaxInt64
	}
	return size/100*CapacityPercent(cluster) - inUse(cluster, broker, used)
}

// Free returns how many bytes replicas of removed brokers may add to a broker's volume, up to
// RemovalPercent. They may always add 1 % of the volume's size, which is the precision of the
// measurement, unless the broker's cleaner is already reclaiming space. used is the number of bytes
// of the current replicas. If the volume's size is unknown, limited is false.
func Free(cluster *v1alpha1.LogCluster, broker int32, used int64) (free int64, limited bool) {
	size := capacity(cluster, broker)
	free = size/100*RemovalPercent(cluster) - inUse(cluster, broker, used)
	v := volume(cluster, broker)
	if v == nil || v.Pressure != v1alpha1.PressureClean && !v.Full() {
		free = max(free, size/100)
	}
	return free, size > 0
}

// Percent returns the usage of a broker's volume, in percent, after a number of bytes has been
// added.
func Percent(cluster *v1alpha1.LogCluster, broker int32, used, added int64) int64 {
	size := max(1, capacity(cluster, broker)/100)
	return (inUse(cluster, broker, used) + added + size - 1) / size
}

// rejectsAt returns the disk usage, in percent, at which a broker begins to reject records.
func rejectsAt(cluster *v1alpha1.LogCluster) int64 {
	if p := cluster.Spec.Storage.Pressure; p != nil && p.RejectPercent != nil {
		return int64(*p.RejectPercent)
	}
	return rejectPercent
}

// volume returns a broker's volume, or nil if the volume has not been measured.
func volume(cluster *v1alpha1.LogCluster, id int32) *v1alpha1.BrokerVolume {
	for i := range cluster.Status.Brokers {
		if b := &cluster.Status.Brokers[i]; b.ID == id && b.Volume != nil &&
			b.Volume.TotalBytes > 0 {
			return b.Volume
		}
	}
	return nil
}

// capacity returns the size of a broker's volume, preferably the measured size.
func capacity(cluster *v1alpha1.LogCluster, id int32) int64 {
	if v := volume(cluster, id); v != nil {
		return v.TotalBytes
	}
	return cluster.Spec.Storage.Size.Value()
}

// inUse returns the number of bytes in use on a broker's volume. The measured number includes other
// files, but used, the sum of the replicas' sizes, is more recent.
func inUse(cluster *v1alpha1.LogCluster, id int32, used int64) int64 {
	if v := volume(cluster, id); v != nil {
		return max(used, v.TotalBytes/100*int64(v.UsedPercent))
	}
	return used
}
