package balance

import (
	"cmp"
	"slices"
)

// candidate is a possible move: the replica at index k of a partition moves to the broker to. If
// copies is false, that replica becomes the preferred leader instead.
type candidate struct {
	partition *partition // nil if there is no move
	k, to     int
	copies    bool
	delta     Potential // change of the potential due to the move
}

// copying returns the candidate that moves the replica at index k to the broker to. ok is false if
// the broker cannot get the replica, or if the move worsens a hard goal that it must not violate.
func (p *planner) copying(moved *partition, k, to int) (c candidate, ok bool) {
	if moved.Fixed || p.brokers[to].Cordoned || p.brokers[to].Draining ||
		slices.Contains(moved.replicas, to) {
		return c, false
	}
	from := moved.replicas[k]
	c = candidate{partition: moved, k: k, to: to, copies: true}
	if c.delta[Racks] = p.rackExcess(moved, k, to) - p.rackExcess(moved, -1, -1); c.delta[Racks] > 0 &&
		!moved.anyway {
		return c, false
	}
	if p.capacity.value[to]+moved.bytes > p.limit(moved, to) {
		return c, false
	}
	if p.brokers[from].Draining {
		c.delta[Drain] = -1
	}
	c.delta[Capacity] = p.capacity.change(from, to, moved.bytes)
	c.delta[Disk] = p.disk.change(from, to, moved.bytes)
	c.delta[TopicReplicas] = p.topics[moved.topic].change(from, to, 1)
	if k == 0 {
		c.delta[LeaderRate] = p.rate.change(from, to, moved.Rate)
		c.delta[Leaders] = p.leaders.change(from, to, 1)
	}
	return c, true
}

// limit returns the number of bytes up to which a partition's replica may fill a broker's disk.
func (p *planner) limit(moved *partition, to int) int64 {
	high := p.capacity.bands[to].high
	if moved.anyway && p.brokers[to].Capacity > 0 {
		return max(high, p.brokers[to].Capacity/100*p.anywayPercent)
	}
	return high
}

// leading returns the candidate that makes the replica at index k > 0 the preferred leader.
func (p *planner) leading(moved *partition, k int) (c candidate, ok bool) {
	from, to := moved.replicas[0], moved.replicas[k]
	if moved.Fixed || moved.KeepLeader || p.brokers[to].Draining {
		return c, false
	}
	c = candidate{partition: moved, k: k, to: to}
	c.delta[LeaderRate] = p.rate.change(from, to, moved.Rate)
	c.delta[Leaders] = p.leaders.change(from, to, 1)
	return c, true
}

// serves reports whether a candidate improves a goal and makes no goal of higher priority worse.
func (c candidate) serves(goal Goal) bool {
	for earlier := range goal {
		if c.delta[earlier] > 0 {
			return false
		}
	}
	return c.delta[goal] < 0
}

// better reports whether a candidate lowers the potential more than another one. If both lower it
// equally, rest decides: it contains comparisons by further criteria.
func (c candidate) better(than candidate, rest ...int) bool {
	if than.partition == nil {
		return true
	}
	if order := c.delta.Compare(than.delta); order != 0 {
		return order < 0
	}
	return cmp.Or(rest...) < 0
}

// apply makes a move.
func (p *planner) apply(c candidate, goal Goal) {
	moved, from := c.partition, c.partition.replicas[c.k]
	if c.copies {
		p.capacity.move(from, c.to, moved.bytes)
		p.disk.move(from, c.to, moved.bytes)
		p.topics[moved.topic].move(from, c.to, 1)
		if c.k == 0 {
			p.rate.move(from, c.to, moved.Rate)
			p.leaders.move(from, c.to, 1)
		}
		moved.replicas[c.k] = c.to
		p.held[from] = slices.DeleteFunc(p.held[from],
			func(other *partition) bool { return other == moved })
		index, _ := slices.BinarySearchFunc(p.held[c.to], moved, func(a, b *partition) int {
			return cmp.Or(cmp.Compare(b.bytes, a.bytes), compareKeys(a, b))
		})
		p.held[c.to] = slices.Insert(p.held[c.to], index, moved)
	} else {
		from = moved.replicas[0]
		p.rate.move(from, c.to, moved.Rate)
		p.leaders.move(from, c.to, 1)
		moved.replicas = slices.Insert(slices.Delete(moved.replicas, c.k, c.k+1), 0, c.to)
	}
	for goal := range p.state {
		p.state[goal] += c.delta[goal]
	}
	ids := make([]int32, len(moved.replicas))
	for i, b := range moved.replicas {
		ids[i] = p.brokers[b].ID
	}
	p.moves = append(p.moves, Move{Partition: moved.index, Replicas: ids, From: p.brokers[from].ID,
		To: p.brokers[c.to].ID, Copy: c.copies, Goal: goal, Anyway: moved.anyway})
}

// byLoad returns all brokers, sorted by load, the highest first.
func (p *planner) byLoad(l *load) []int {
	order := make([]int, len(p.brokers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.value[b], l.value[a]) })
	return order
}

// searchDrain moves the largest replica of the first draining broker. It chooses the target broker
// for which the move lowers the potential most and, among equal ones, the broker with the fewest
// bytes. Large replicas move first, so that small ones can fill the gaps.
func (p *planner) searchDrain() (best candidate) {
	for b := range p.brokers {
		if !p.brokers[b].Draining {
			continue
		}
		for _, partition := range p.held[b] {
			if best = p.bestTarget(partition, slices.Index(partition.replicas, b),
				Drain); best.partition != nil {
				return best
			}
		}
	}
	return best
}

// bestTarget returns the candidate with the best target broker for a replica.
func (p *planner) bestTarget(moved *partition, k int, goal Goal) (best candidate) {
	for to := range p.brokers {
		c, ok := p.copying(moved, k, to)
		if ok && c.serves(goal) && c.better(best, cmp.Compare(p.disk.value[to],
			p.disk.value[best.to])) {
			best = c
		}
	}
	return best
}

// searchRacks moves one replica of the first partition whose distribution across racks can be
// improved.
func (p *planner) searchRacks() (best candidate) {
	for _, partition := range p.partitions {
		if p.rackExcess(partition, -1, -1) == 0 {
			continue
		}
		for k := range partition.replicas {
			c := p.bestTarget(partition, k, Racks)
			if c.partition != nil && c.better(best) {
				best = c
			}
		}
		if best.partition != nil {
			return best
		}
	}
	return best
}

// searchDisk moves a replica from the broker with the most bytes to the broker with the fewest. If
// no such move is possible, it tries the next pair of brokers. It chooses the replica with the
// largest gain per byte. Most replicas have the same gain; among these, it prefers the best one for
// the later goals, and then the largest one, so that fewer moves are needed.
func (p *planner) searchDisk(goal Goal) (best candidate) {
	order := p.byLoad(&p.disk)
	for _, from := range order {
		for i := len(order) - 1; i >= 0 && order[i] != from; i-- {
			for _, partition := range p.held[from] {
				c, ok := p.copying(partition, slices.Index(partition.replicas, from), order[i])
				if ok && c.serves(goal) && c.worthwhile(goal) && c.gainsMore(best, goal) {
					best = c
				}
			}
			if best.partition != nil {
				return best
			}
		}
	}
	return best
}

// worthwhile reports whether a copy for the goal Disk gains at least half of the copied bytes.
func (c candidate) worthwhile(goal Goal) bool {
	return goal != Disk || -2*c.delta[Disk] >= c.partition.bytes
}

// gainsMore reports whether a copy gains more per copied byte than another one.
func (c candidate) gainsMore(than candidate, goal Goal) bool {
	if than.partition == nil {
		return true
	}
	// Use floating-point division, because products of two sizes exceed 64 bits. The deltas of
	// replicas that fit into the gap are exact multiples of the replicas' sizes, so equal gains
	// compare as equal.
	mine := float64(c.delta[goal]) / float64(c.partition.bytes)
	other := float64(than.delta[goal]) / float64(than.partition.bytes)
	return cmp.Or(cmp.Compare(mine, other),
		slices.Compare(c.delta[goal+1:], than.delta[goal+1:])) < 0
}

// searchTopic looks for a topic with too many replicas on one broker, and moves one of them to the
// broker with the fewest replicas of the topic. It prefers small replicas.
func (p *planner) searchTopic() (best candidate) {
	for number := range p.topics {
		l := &p.topics[number]
		if l.excess() == 0 {
			continue
		}
		order := p.byLoad(l)
		for _, from := range order {
			for i := len(order) - 1; i >= 0 && order[i] != from; i-- {
				for _, partition := range slices.Backward(p.held[from]) {
					if partition.topic != number {
						continue
					}
					c, ok := p.copying(partition, slices.Index(partition.replicas, from), order[i])
					if ok && c.serves(TopicReplicas) && c.better(best) {
						best = c
					}
				}
				if best.partition != nil {
					return best
				}
			}
		}
	}
	return best
}

// searchLeader makes another replica the preferred leader of a partition that the busiest broker
// leads. If this is impossible for every broker, searchLeader moves a leader's replica, but only
// for the goal LeaderRate: a more even number of leaders does not justify a copy.
func (p *planner) searchLeader(goal Goal) (best candidate) {
	l := &p.rate
	if goal == Leaders {
		l = &p.leaders
	}
	order := p.byLoad(l)
	for _, from := range order {
		for _, partition := range p.held[from] {
			if partition.replicas[0] != from {
				continue
			}
			for k := 1; k < len(partition.replicas); k++ {
				c, ok := p.leading(partition, k)
				if ok && c.serves(goal) && c.better(best) {
					best = c
				}
			}
		}
		if best.partition != nil {
			return best
		}
	}
	if goal == Leaders {
		return best
	}
	return p.searchLeaderCopy(order)
}

// searchLeaderCopy moves a leader's replica to another broker for the goal LeaderRate.
func (p *planner) searchLeaderCopy(order []int) (best candidate) {
	for _, from := range order {
		for i := len(order) - 1; i >= 0 && order[i] != from; i-- {
			for _, partition := range p.held[from] {
				if partition.replicas[0] != from || partition.KeepLeader {
					continue
				}
				c, ok := p.copying(partition, 0, order[i])
				if ok && c.serves(LeaderRate) && -2*c.delta[LeaderRate] >= partition.Rate &&
					c.gainsMore(best, LeaderRate) {
					best = c
				}
			}
			if best.partition != nil {
				return best
			}
		}
	}
	return best
}

// blocked returns the replicas that the plan leaves on draining brokers, each with the goal that
// prevents its move.
func (p *planner) blocked() (all []Blocked) {
	for b := range p.brokers {
		if !p.brokers[b].Draining {
			continue
		}
		for _, partition := range p.held[b] {
			if !partition.Fixed {
				all = append(all, Blocked{Partition: partition.index, Broker: p.brokers[b].ID,
					Goal: p.obstacle(partition, slices.Index(partition.replicas, b))})
			}
		}
	}
	return all
}

// obstacle returns the goal that prevents a replica's move. If different brokers are excluded by
// different goals, it returns the last of these goals.
func (p *planner) obstacle(moved *partition, k int) Goal {
	worst := Drain
	for to := range p.brokers {
		if p.brokers[to].Cordoned || p.brokers[to].Draining || slices.Contains(moved.replicas, to) {
			continue
		}
		if p.rackExcess(moved, k, to) > p.rackExcess(moved, -1, -1) && !moved.anyway {
			worst = max(worst, Racks)
		} else {
			worst = Capacity
		}
	}
	return worst
}
