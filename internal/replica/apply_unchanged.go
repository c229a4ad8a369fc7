package replica

// sameAs reports whether a partition has the same role, and its log the same settings, as in the
// previous image. before is the partition in that image. The caller has checked that both images
// contain the same brokers.
func (ap assignedPartition) sameAs(before assignedPartition) bool {
	if before.partition == nil || !ap.partition.Equal(before.partition) {
		return false
	}
	return ap.topic == before.topic || ap.topic.ID == before.topic.ID &&
		ap.topic.Settings == before.topic.Settings &&
		ap.topic.RetainData == before.topic.RetainData
}

// sameLogs reports whether the assigned partitions are the same as in the previous view, and all
// their logs are open.
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

// keepUnchanged adds the partitions that an image does not change to the view v. It returns the
// changed partitions.
func (v *view) keepUnchanged(old map[PartitionID]*partition,
	assigned []assignedPartition) (changed []assignedPartition) {
	for _, ap := range assigned {
		if p := old[ap.id]; p != nil && ap.sameAs(p.applied) && !p.foundLost.Load() {
			p.applied = ap
			// Reset the fault here, because a fetch without new records does not reset it. If the fault
			// remains, the next fetch sets it again.
			p.followFault.Store(nil)
			v.partitions[ap.id] = p
		} else {
			changed = append(changed, ap)
		}
	}
	return changed
}
