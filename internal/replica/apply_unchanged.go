package replica

// sameAs reports whether the partition's role, and the settings of its log, are the same as those
// that before was applied for. The brokers of both images must be equal.
func (ap assignedPartition) sameAs(before assignedPartition) bool {
	if before.partition == nil || !ap.partition.Equal(before.partition) {
		return false
	}
	return ap.topic == before.topic || ap.topic.ID == before.topic.ID &&
		ap.topic.Settings == before.topic.Settings &&
		ap.topic.RetainData == before.topic.RetainData
}

// sameLogs reports whether the assigned partitions are those of the previous view, and all their
// logs are open.
func sameLogs(old map[PartitionID]*partition, assigned []assignedPartition) bool {
	if len(old) != len(assigned) {
		return false
	}
	for _, ap := range assigned {
		if p := old[ap.id]; p == nil || p.log == nil || p.topic != ap.topic.ID {
			return false
		}
	}
	return true
}

// keepUnchanged adds the partitions that an image does not change to the next view. It returns the
// other ones.
func (v *view) keepUnchanged(old map[PartitionID]*partition,
	assigned []assignedPartition) (changed []assignedPartition) {
	for _, ap := range assigned {
		if p := old[ap.id]; p != nil && ap.sameAs(p.applied) && !p.foundLost.Load() {
			p.applied = ap
			// A fetch that finds nothing new does not show whether the fault lasts.
			p.followFault.Store(nil)
			v.partitions[ap.id] = p
		} else {
			changed = append(changed, ap)
		}
	}
	return changed
}
