package assignment

import (
	"fmt"
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/rebalance"
	"heartwood.dev/heartwood/internal/placement"
)

// topicsMax is the maximum number of Topics that a message names.
const topicsMax = 5

// disks contains the sizes that the brokers have reported. It is immutable.
type disks struct {
	sizes map[report.TopicPartition]map[int32]int64 // size of each replica
	used  map[int32]int64                           // bytes used by all replicas on each broker
	// silent are the brokers that did not report. The measured use of their volumes includes their
	// replicas.
	silent []int32
}

// newDisks returns the sizes in a report. The report can be nil.
func newDisks(latest *reports.Cluster) disks {
	d := disks{sizes: map[report.TopicPartition]map[int32]int64{}, used: map[int32]int64{}}
	if latest == nil {
		return d
	}
	d.silent = latest.Silent
	for _, rows := range latest.Rows {
		for i := range rows {
			key := report.TopicPartition{Topic: rows[i].Topic, Partition: rows[i].Partition}
			if d.sizes[key] == nil {
				d.sizes[key] = map[int32]int64{}
			}
			d.sizes[key][rows[i].Broker] = rows[i].SizeBytes
			d.used[rows[i].Broker] += rows[i].SizeBytes
		}
	}
	return d
}

// bytes returns a partition's size. This is the size of the leader's log if it is known, otherwise
// the size of the largest known replica. A partition that never had a leader has no records.
func (d disks) bytes(partition report.TopicPartition, state *partitionset.State) (bytes int64,
	known bool) {
	if state == nil || len(state.ISR) == 0 {
		return 0, true
	}
	sizes := d.sizes[partition]
	if bytes, known = sizes[state.Leader]; known {
		return bytes, true
	}
	for _, size := range sizes {
		bytes = max(bytes, size)
	}
	return bytes, len(sizes) > 0
}

// newPlan returns the changes that adapt the assignments to the Topics. If the replicas of brokers
// that are to be removed do not fit on the other brokers' disks, these replicas stay.
func newPlan(in input) plan {
	p := makePlan(in, false)
	if !p.leaves {
		p.removal = p.describeFull()
		return p.plan
	}
	added, unsized := p.project()
	p.unsized = len(unsized) > 0
	removal := p.describeOverfull(added)
	if p.unsized && p.awaitsSizes {
		removal = p.describeUnsized(unsized)
	}
	if removal.Reason == "" {
		p.removal = p.describeFull()
		return p.plan
	}
	kept := makePlan(in, true)
	kept.unsized, kept.removal = p.unsized, removal
	return kept.plan
}

// describeUnsized describes for which unknown sizes the removal of brokers waits.
func (p *planner) describeUnsized(unsized []string) conditions.Removal {
	return conditions.Removal{Reason: v1alpha1.ReasonDraining, Message: fmt.Sprintf(
		"Brokers %d and above are removed once their replicas have moved to other brokers: the sizes "+
			"of %d partitions, such as %s, are not known yet.", p.cluster.Spec.Brokers, len(unsized),
		unsized[0])}
}

// describeFull describes the replicas that cannot leave brokers because the remaining brokers are
// Full.
func (p *planner) describeFull() conditions.Removal {
	if len(p.full) == 0 {
		return conditions.Removal{}
	}
	return conditions.Removal{Reason: v1alpha1.ReasonDisksDoNotFit, Message: fmt.Sprintf(
		"Brokers %d and above are not removed: the replicas of Topics %s cannot move, because the "+
			"volumes of brokers %v are almost full (condition StoragePressure). Delete records or add "+
			"disk space there, or raise spec.brokers.", p.cluster.Spec.Brokers,
		strings.Join(p.full[:min(len(p.full), topicsMax)], " "), p.fullBrokers())}
}

// describeOverfull describes the disks that the added bytes would overfill.
func (p *planner) describeOverfull(added map[int32]int64) conditions.Removal {
	brokers := p.cluster.Spec.Brokers
	var overfull []string
	for id := range brokers {
		free, limited := rebalance.Free(p.cluster, id, p.disks.used[id])
		if bytes := added[id]; limited && bytes > 0 && bytes > free {
			overfull = append(overfull, fmt.Sprintf("broker %d to %d %%", id,
				rebalance.Percent(p.cluster, id, p.disks.used[id], bytes)))
		}
	}
	if len(overfull) == 0 {
		return conditions.Removal{}
	}
	anyway := ", or set the annotation " + v1alpha1.AnnotationDrainAnyway + "=true to ignore it."
	if rebalance.DrainsAnyway(p.cluster) {
		anyway = "."
	}
	return conditions.Removal{Reason: v1alpha1.ReasonDisksDoNotFit, Message: fmt.Sprintf(
		"No replica leaves brokers %d and above, because they would fill the disks of other brokers "+
			"to more than %d %%: %s. Raise spec.brokers, add disk space or delete records%s", brokers,
		rebalance.RemovalPercent(p.cluster), strings.Join(overfull, ", "), anyway)}
}

// fullBrokers returns the ids of the remaining brokers whose volumes are almost full, sorted.
func (p *planner) fullBrokers() (ids []int32) {
	for id := range p.cluster.FullBrokers() {
		if id < p.cluster.Spec.Brokers {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// project returns the number of bytes that each broker will receive if the plan is carried out.
// This includes assignments that were written earlier. unsized are the partitions of unknown size
// that leave a broker which is to be removed, sorted. They count as empty.
func (p *planner) project() (added map[int32]int64, unsized []string) {
	after := map[partitionset.Key]*partitionset.Assignment{}
	for _, change := range p.assign {
		after[change.key] = change.after
	}
	names := map[string]*v1alpha1.Topic{}
	for _, topic := range p.topics {
		names[topic.Name] = topic
	}
	added = map[int32]int64{}
	for key, entry := range p.sets.All() {
		now, topic := entry.Assignment, names[key.Topic]
		if changed, ok := after[key]; ok {
			now = changed
		}
		if now == nil || topic == nil || entry.State == nil || now.Tag != sets.Tag(topic.UID) {
			continue
		}
		partition := report.TopicPartition{Topic: topic.KafkaName(), Partition: key.Index}
		bytes, known := p.disks.bytes(partition, entry.State)
		for _, id := range now.Replicas {
			if slices.ContainsFunc(entry.State.ISR,
				func(m placement.InSyncReplica) bool { return m.Broker == id }) {
				continue
			}
			if slices.Contains(p.disks.silent, id) && !entry.Reassigning() &&
				slices.Contains(entry.State.Replicas, id) {
				continue // the disk already has the replica
			}
			added[id] += max(0, bytes-p.disks.sizes[partition][id])
			if !known && entry.Assignment != nil && p.isRemoved(entry.Assignment.Replicas) {
				unsized = append(unsized, key.String())
			}
		}
	}
	slices.Sort(unsized)
	return added, slices.Compact(unsized)
}

// isRemoved reports whether any of the given brokers is to be removed.
func (p *planner) isRemoved(ids []int32) bool {
	return slices.ContainsFunc(ids, func(id int32) bool { return id >= p.cluster.Spec.Brokers })
}

// removedBrokers returns the brokers that are to be removed but still have replicas. While their
// replicas cannot move, these brokers receive no others.
func (p *planner) removedBrokers() (brokers []placement.Broker) {
	for id, replicas := range p.load {
		if id >= p.cluster.Spec.Brokers && replicas > 0 {
			brokers = append(brokers, placement.Broker{ID: id, Rack: p.racks[id].name, Full: true,
				Cordoned: true})
		}
	}
	return brokers
}

// fitDisks returns the free disk space of each broker for moved replicas, and the sizes of the
// given partitions of the Topic.
func (p *planner) fitDisks(o owner, indexes []int32) placement.Disks {
	if p.free == nil {
		p.free = map[int32]int64{}
		receiving, _ := p.project()
		for id := range p.cluster.Spec.Brokers {
			if free, limited := rebalance.Free(p.cluster, id, p.disks.used[id]); limited {
				p.free[id] = free - receiving[id]
			}
		}
	}
	free := placement.Disks{Free: p.free}
	for _, index := range indexes {
		bytes, _ := p.disks.bytes(report.TopicPartition{Topic: o.topic.KafkaName(),
			Partition: index}, p.sets.Get(key(o.topic, index)).State)
		free.Bytes = append(free.Bytes, bytes)
	}
	return free
}
