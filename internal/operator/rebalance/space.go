package rebalance

import (
	"math"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// FreeSpace returns the number of bytes that new replicas may add on the volume of a broker: they
// may fill it as far as moves may. It is negative if the volume is fuller. used is the number of
// bytes of the present replicas. If the size of the volume is unknown, FreeSpace returns
// math.MaxInt64.
func FreeSpace(cluster *v1alpha1.LogCluster, broker int32, used int64) int64 {
	size := capacity(cluster, broker)
	if size == 0 {
		return math.MaxInt64
	}
	return size/100*maxPercent(cluster) - inUse(cluster, broker, used)
}

// maxPercent returns how much of a disk moves may fill.
func maxPercent(cluster *v1alpha1.LogCluster) int64 {
	return min(capacityPercent, rejectsAt(cluster)-1)
}

// rejectsAt returns the percentage from which on a broker refuses records.
func rejectsAt(cluster *v1alpha1.LogCluster) int64 {
	if p := cluster.Spec.Storage.Pressure; p != nil && p.Reject != nil {
		return int64(*p.Reject)
	}
	return rejectPercent
}

// volume returns the volume of a broker, or nil if it was not measured.
func volume(cluster *v1alpha1.LogCluster, id int32) *v1alpha1.BrokerVolume {
	for i := range cluster.Status.Brokers {
		if b := &cluster.Status.Brokers[i]; b.ID == id && b.Volume != nil &&
			b.Volume.TotalBytes > 0 {
			return b.Volume
		}
	}
	return nil
}

// capacity returns the size of a broker's volume: the measured one if it is known.
func capacity(cluster *v1alpha1.LogCluster, id int32) int64 {
	if v := volume(cluster, id); v != nil {
		return v.TotalBytes
	}
	return cluster.Spec.Storage.Size.Value()
}

// inUse returns the number of bytes in use on a broker's volume. The measured number includes other
// files, but the sizes of replicas, whose sum is used, are newer.
func inUse(cluster *v1alpha1.LogCluster, id int32, used int64) int64 {
	if v := volume(cluster, id); v != nil {
		return max(used, v.TotalBytes/100*int64(v.UsedPercent))
	}
	return used
}
