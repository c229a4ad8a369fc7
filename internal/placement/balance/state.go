package balance

import (
	"cmp"
	"slices"
)

// partition is a partition while a plan is computed. It identifies brokers by their positions in
// planner.brokers.
type partition struct {
	Partition
	index    int // index of the partition in Cluster.Partitions
	topic    int
	bytes    int64 // Partition.Bytes plus replicaBytes
	replicas []int
	// true if the replicas may leave draining brokers despite the limits for racks and disks
	anyway bool
}

// band contains the bounds that a goal sets for one broker; both are inclusive.
type band struct{ low, high int64 }

// excess returns how far a value is outside the band; 0 if it is within the band.
func (b band) excess(value int64) int64 { return max(0, value-b.high, b.low-value) }

// unbounded is the band for a broker to which a goal does not apply.
var unbounded = band{low: -1 << 62, high: 1 << 62}

// load contains each broker's amount of what a goal measures, such as bytes or leaders, and the
// goal's bounds.
type load struct {
	value []int64
	bands []band
}

// change returns by how much the excess changes if amount moves from one broker to another.
func (l *load) change(from, to int, amount int64) int64 {
	if amount == 0 || from == to {
		return 0
	}
	before := l.bands[from].excess(l.value[from]) + l.bands[to].excess(l.value[to])
	return l.bands[from].excess(l.value[from]-amount) + l.bands[to].excess(l.value[to]+amount) -
		before
}

func (l *load) move(from, to int, amount int64) {
	l.value[from] -= amount
	l.value[to] += amount
}

func (l *load) excess() int64 {
	sum := int64(0)
	for i, value := range l.value {
		sum += l.bands[i].excess(value)
	}
	return sum
}

// planner is the state of one call of New.
type planner struct {
	options Options
	// anywayPercent is Cluster.AnywayPercent.
	anywayPercent int64

	brokers    []Broker // brokers, sorted by id
	partitions []*partition
	held       [][]*partition // partitions by broker, sorted by size, the largest first
	racks      []int          // rack of each broker
	rackCount  int            // number of racks with a broker that is not being removed

	capacity, disk, rate, leaders load
	topics                        []load
	state                         Potential // current potential, which apply updates

	moves []Move
}

func newPlanner(cluster Cluster, options Options) *planner {
	options.TolerancePercent = cmp.Or(options.TolerancePercent, 10)
	options.CapacityPercent = cmp.Or(options.CapacityPercent, 80)
	p := &planner{options: options, anywayPercent: cluster.AnywayPercent,
		brokers: slices.Clone(cluster.Brokers)}
	slices.SortFunc(p.brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	p.nameRacks()
	p.addPartitions(cluster.Partitions)
	p.count()
	p.state = p.potential()
	return p
}

// nameRacks assigns a number to each rack.
func (p *planner) nameRacks() {
	numbers, used := map[string]int{}, map[int]bool{}
	p.racks = make([]int, len(p.brokers))
	for i, b := range p.brokers {
		number, known := numbers[b.Rack]
		if !known {
			number = len(numbers)
			numbers[b.Rack] = number
		}
		p.racks[i] = number
		if !b.Removed {
			used[number] = true
		}
	}
	p.rackCount = max(1, len(used))
}

// addPartitions converts the partitions and sorts them, so that their order in the input does not
// matter.
func (p *planner) addPartitions(all []Partition) {
	position := make(map[int32]int, len(p.brokers))
	for i, b := range p.brokers {
		position[b.ID] = i
	}
	p.partitions = make([]*partition, len(all))
	for i := range all {
		added := &partition{Partition: all[i], index: i, bytes: all[i].Bytes + replicaBytes}
		for _, id := range all[i].Replicas {
			added.replicas = append(added.replicas, position[id])
		}
		p.partitions[i] = added
	}
	slices.SortFunc(p.partitions, compareKeys)
	p.held = make([][]*partition, len(p.brokers))
	topics := -1
	for i, partition := range p.partitions {
		if i == 0 || partition.Topic != p.partitions[i-1].Topic {
			topics++
		}
		partition.topic = topics
		for _, b := range partition.replicas {
			p.held[b] = append(p.held[b], partition)
		}
	}
	for _, held := range p.held {
		slices.SortStableFunc(held, func(a, b *partition) int {
			return cmp.Compare(b.bytes, a.bytes)
		})
	}
	p.topics = make([]load, topics+1)
}

// count computes the loads of all brokers and the bounds of all goals.
func (p *planner) count() {
	for _, l := range []*load{&p.capacity, &p.disk, &p.rate, &p.leaders} {
		l.value = make([]int64, len(p.brokers))
	}
	for i := range p.topics {
		p.topics[i].value = make([]int64, len(p.brokers))
	}
	for _, partition := range p.partitions {
		for k, b := range partition.replicas {
			p.disk.value[b] += partition.bytes
			p.topics[partition.topic].value[b]++
			if k == 0 {
				p.rate.value[b] += partition.Rate
				p.leaders.value[b]++
			}
		}
	}
	p.capacity.bands = make([]band, len(p.brokers))
	for i, b := range p.brokers {
		p.capacity.value[i] = p.disk.value[i] + b.Other
		p.capacity.bands[i] = unbounded
		if b.Capacity > 0 && !b.Draining {
			p.capacity.bands[i].high = b.Capacity / 100 * p.options.CapacityPercent
		}
	}
	for _, l := range []*load{&p.disk, &p.rate, &p.leaders} {
		l.bands = p.bands(l.value, func(total, n int64) band {
			// Round outwards, so that a mean of 2.5 leaders allows 2 and 3.
			low := total * (100 - p.options.TolerancePercent) / (100 * n)
			high := (total*(100+p.options.TolerancePercent) + 100*n - 1) / (100 * n)
			return band{low, high}
		})
	}
	for i := range p.topics {
		l := &p.topics[i]
		l.bands = p.bands(l.value, func(total, n int64) band {
			mean := (total + n - 1) / n
			return band{high: max(mean+1, (3*total+2*n-1)/(2*n))}
		})
	}
}

// bands returns the bounds for each broker. It calls bounds with the total of all values and the
// number of brokers that are not draining. A cordoned broker has no lower bound, because it can get
// no replica.
func (p *planner) bands(values []int64, bounds func(total, n int64) band) []band {
	total, n := int64(0), int64(0)
	for i, b := range p.brokers {
		total += values[i]
		if !b.Draining {
			n++
		}
	}
	common := unbounded
	if n > 0 {
		common = bounds(total, n)
	}
	bands := make([]band, len(p.brokers))
	for i, b := range p.brokers {
		bands[i] = common
		if b.Draining {
			bands[i] = unbounded
		} else if b.Cordoned {
			bands[i].low = unbounded.low
		}
	}
	return bands
}

// potential computes the potential from the loads.
func (p *planner) potential() Potential {
	var sum Potential
	for _, partition := range p.partitions {
		for _, b := range partition.replicas {
			if p.brokers[b].Draining {
				sum[Drain]++
			}
		}
		sum[Racks] += p.rackExcess(partition, -1, -1)
	}
	sum[Capacity], sum[Disk] = p.capacity.excess(), p.disk.excess()
	sum[LeaderRate], sum[Leaders] = p.rate.excess(), p.leaders.excess()
	for i := range p.topics {
		sum[TopicReplicas] += p.topics[i].excess()
	}
	return sum
}

// rackExcess returns the number of a partition's replicas that exceed the fair share of their rack,
// plus the number of racks in which the partition should have a replica but has none. It assumes
// that the replica at index k is on the given broker; if k is -1, it counts the current replicas.
// For example, if a partition has four replicas in three racks, two of them may share a rack, but
// if it uses only two racks with two replicas each, one rack is missing.
func (p *planner) rackExcess(placed *partition, k, broker int) int64 {
	share := (len(placed.replicas) + p.rackCount - 1) / p.rackCount
	excess, missing := int64(0), min(len(placed.replicas), p.rackCount)
	rack := func(i int) int {
		if i == k {
			return p.racks[broker]
		}
		return p.racks[placed.replicas[i]]
	}
	for i := range placed.replicas {
		before := 0 // number of replicas with a lower index in the same rack
		for j := range i {
			if rack(j) == rack(i) {
				before++
			}
		}
		if before >= share {
			excess++
		}
		if before == 0 {
			missing--
		}
	}
	return excess + int64(max(0, missing))
}
