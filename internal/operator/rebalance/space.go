package rebalance

import (
	"maps"
	"math"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement/balance"
)

// PlanInput returns the input of a plan for a LogCluster's brokers. For each broker, known contains
// the number of bytes of its replicas among the partitions, and used the number of bytes of all its
// replicas. Bytes on a volume beyond known, for example of retained partitions, cannot be moved.
// Partitions with replicas on brokers that are being removed are fixed, because the assignment
// controller moves them.
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

// CapacityPercent returns the share of a disk up to which moves can fill it, except moves with
// Move.Anyway.
func CapacityPercent(cluster *v1alpha1.LogCluster) int64 {
	return min(capacityPercent, anywayPercent(cluster))
}

// RemovalPercent returns the share of a disk up to which the replicas of removed brokers can fill
// it.
func RemovalPercent(cluster *v1alpha1.LogCluster) int64 {
	if DrainsAnyway(cluster) {
		return anywayPercent(cluster)
	}
	return CapacityPercent(cluster)
}

// anywayPercent returns the share of a disk up to which moves with Move.Anyway can fill it. At this
// share, the broker still accepts records.
func anywayPercent(cluster *v1alpha1.LogCluster) int64 { return rejectsAt(cluster) - 1 }

// DrainsAnyway reports whether the annotation relaxes two limits: a blocked drain or removal of
// brokers may fill disks further, and a blocked drain may place replicas in the same rack.
func DrainsAnyway(cluster *v1alpha1.LogCluster) bool {
	return cluster.Annotations[v1alpha1.AnnotationDrainAnyway] == "true"
}

// FreeSpace returns the number of bytes that new replicas can add to a broker's volume, up to
// CapacityPercent. It is negative if the volume is fuller. used is the number of bytes of the
// present replicas. If the volume's size is unknown, FreeSpace returns math.MaxInt64.
func FreeSpace(cluster *v1alpha1.LogCluster, broker int32, used int64) int64 {
	size := capacity(cluster, broker)
	if size == 0 {
		return math.MaxInt64
	}
	return size/100*CapacityPercent(cluster) - inUse(cluster, broker, used)
}

// Free returns the number of bytes that replicas of removed brokers can add to a broker's volume,
// up to RemovalPercent. They can always add 1 % of the volume's size, which is the precision of the
// measurement, unless the broker's cleaner already reclaims space. used is the number of bytes of
// the present replicas. If the volume's size is unknown, limited is false.
func Free(cluster *v1alpha1.LogCluster, broker int32, used int64) (free int64, limited bool) {
	size := capacity(cluster, broker)
	free = size/100*RemovalPercent(cluster) - inUse(cluster, broker, used)
	v := volume(cluster, broker)
	if v == nil || v.Pressure != v1alpha1.PressureClean && !v.Full() {
		free = max(free, size/100)
	}
	return free, size > 0
}

// Percent returns the used share of a broker's volume, in percent, after added bytes were written
// to it.
func Percent(cluster *v1alpha1.LogCluster, broker int32, used, added int64) int64 {
	size := max(1, capacity(cluster, broker)/100)
	return (inUse(cluster, broker, used) + added + size - 1) / size
}

// rejectsAt returns the percentage at which a broker begins to refuse records.
func rejectsAt(cluster *v1alpha1.LogCluster) int64 {
	if p := cluster.Spec.Storage.Pressure; p != nil && p.Reject != nil {
		return int64(*p.Reject)
	}
	return rejectPercent
}

// volume returns a broker's volume, or nil if the volume was not measured.
func volume(cluster *v1alpha1.LogCluster, id int32) *v1alpha1.BrokerVolume {
	for i := range cluster.Status.Brokers {
		if b := &cluster.Status.Brokers[i]; b.ID == id && b.Volume != nil &&
			b.Volume.TotalBytes > 0 {
			return b.Volume
		}
	}
	return nil
}

// capacity returns the size of a broker's volume. It prefers the measured size.
func capacity(cluster *v1alpha1.LogCluster, id int32) int64 {
	if v := volume(cluster, id); v != nil {
		return v.TotalBytes
	}
	return cluster.Spec.Storage.Size.Value()
}

// inUse returns the number of bytes in use on a broker's volume. The measured number includes other
// files, but the sizes of replicas, whose sum is used, are more recent.
func inUse(cluster *v1alpha1.LogCluster, id int32, used int64) int64 {
	if v := volume(cluster, id); v != nil {
		return max(used, v.TotalBytes/100*int64(v.UsedPercent))
	}
	return used
}
