package assignor

import (
	"maps"
	"slices"
)

// Uniform assigns partitions so that any two members' numbers of partitions differ by at most one,
// as far as their subscriptions allow. It keeps as much of the previous assignment as it can.
//
// The result is an optimal semi-matching of partitions to members. Uniform first keeps the previous
// assignments of subscribed topics, and assigns each free partition to the subscriber with the
// fewest partitions. It then moves partitions along paths. A step of a path leads from a
// partition's owner to another subscriber of the partition's topic. While there is a path from a
// member to a member with at least two fewer partitions, Uniform transfers one partition along each
// step of this path. A semi-matching without such a path is optimal (Harvey, Ladner, Lovász and
// Tamir, "Semi-matchings for bipartite graphs and load balancing", 2003). If all subscriptions are
// the same, every path has one step, and the number of transferred partitions is minimal.
func Uniform(members []Member, topics map[TopicID]int) map[string]Assignment {
	u := newUniform(ordered(members), topics)
	u.keep()
	if u.sameSubscriptions() {
		u.releaseExcess()
	}
	u.assignFree()
	for u.balance() {
	}
	assigned := make(map[string]Assignment, len(u.members))
	for i := range u.members {
		assigned[u.members[i].ID] = Assignment{}
	}
	for _, topic := range u.order {
		for partition, index := range u.owner[topic] {
			if index >= 0 {
				a := assigned[u.members[index].ID]
				a[topic] = append(a[topic], int32(partition))
			}
		}
	}
	return assigned
}

// uniform is the state of one call of Uniform. It identifies members by their indexes.
type uniform struct {
	members     []Member
	order       []TopicID         // topics by ascending number of subscribers, then by id
	subscribers map[TopicID][]int // members that subscribe to each topic
	owner       map[TopicID][]int // owner of each partition; -1 if there is none yet
	// previous contains the owner of each partition in the previous assignment; -1 if there was none.
	previous map[TopicID][]int
	load     []int             // number of partitions of each member
	counts   []map[TopicID]int // number of partitions of each member, by topic
	ordered  [][]TopicID       // subscribed topics of each member, in the order of the field order
}

func newUniform(members []Member, topics map[TopicID]int) *uniform {
	u := &uniform{
		members: members, subscribers: subscribers(members, topics), owner: map[TopicID][]int{},
		previous: map[TopicID][]int{},
		load:     make([]int, len(members)), counts: make([]map[TopicID]int, len(members)),
		ordered: make([][]TopicID, len(members)),
	}
	u.order = slices.SortedFunc(maps.Keys(u.subscribers), func(a, b TopicID) int {
		if d := len(u.subscribers[a]) - len(u.subscribers[b]); d != 0 {
			return d
		}
		return compareTopics(a, b)
	})
	for i := range members {
		u.counts[i] = map[TopicID]int{}
	}
	for _, topic := range u.order {
		u.owner[topic], u.previous[topic] = unassigned(topics[topic]), unassigned(topics[topic])
		for _, index := range u.subscribers[topic] {
			u.ordered[index] = append(u.ordered[index], topic)
		}
	}
	return u
}

func unassigned(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = -1
	}
	return all
}

// setOwner assigns a partition to a member. If another member owned the partition, that member
// loses it.
func (u *uniform) setOwner(topic TopicID, partition, to int) {
	if from := u.owner[topic][partition]; from >= 0 {
		u.load[from]--
		u.counts[from][topic]--
	}
	u.owner[topic][partition] = to
	u.load[to]++
	u.counts[to][topic]++
}

// keep assigns the partitions of subscribed topics to their previous owners. If a partition has two
// previous owners, the first one gets the partition.
func (u *uniform) keep() {
	for index := range u.members {
		for _, topic := range u.ordered[index] {
			for _, partition := range u.members[index].Current[topic] {
				if partition >= 0 && int(partition) < len(u.owner[topic]) &&
					u.owner[topic][partition] < 0 {
					u.previous[topic][partition] = index
					u.setOwner(topic, int(partition), index)
				}
			}
		}
	}
}

// sameSubscriptions reports whether all members subscribe to the same topics.
func (u *uniform) sameSubscriptions() bool {
	for _, topic := range u.order {
		if len(u.subscribers[topic]) != len(u.members) {
			return false
		}
	}
	return true
}

// releaseExcess releases the partitions by which members exceed their shares. Without it, balance
// would move these partitions one by one. If shares differ by one, the members with the most
// partitions get the larger shares.
func (u *uniform) releaseExcess() {
	if len(u.members) == 0 {
		return
	}
	total := 0
	for _, owners := range u.owner {
		total += len(owners)
	}
	share, more := total/len(u.members), total%len(u.members)
	above := make([]int, len(u.members))
	for _, index := range u.byLoad() {
		if above[index] = u.load[index] - share; above[index] > 0 && more > 0 {
			above[index]--
			more--
		}
	}
	for _, topic := range slices.Backward(u.order) {
		for partition, index := range slices.Backward(u.owner[topic]) {
			if index >= 0 && above[index] > 0 {
				above[index]--
				u.owner[topic][partition] = -1
				u.load[index]--
				u.counts[index][topic]--
			}
		}
	}
}

// byLoad returns the members in descending order of load.
func (u *uniform) byLoad() []int {
	all := make([]int, len(u.members))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return u.load[b] - u.load[a] })
	return all
}

// assignFree assigns each free partition to the subscriber with the fewest partitions. It begins
// with the topics that have the fewest subscribers, because their partitions have the fewest
// possible owners.
func (u *uniform) assignFree() {
	for _, topic := range u.order {
		queue := newQueue(u.subscribers[topic], u.load)
		for partition, owner := range u.owner[topic] {
			if owner < 0 {
				u.setOwner(topic, partition, queue.least())
				queue.fix()
			}
		}
	}
}

// balance looks for a path from a member to another member that has at least two fewer partitions,
// and transfers one partition along each step of that path. It returns false if there is no such
// path.
func (u *uniform) balance() bool {
	// Members in settled have no path to a member with at least two fewer partitions.
	settled := make([]bool, len(u.members))
	for {
		from := -1
		for index := range u.members {
			if !settled[index] && (from < 0 || u.load[index] > u.load[from]) {
				from = index
			}
		}
		if from < 0 || u.load[from] == 0 {
			return false
		}
		reached, steps := u.reach(from)
		best := from
		// among reached members with the same lowest load, best is the nearest
		for _, index := range reached {
			if u.load[index] < u.load[best] {
				best = index
			}
		}
		if u.load[best] <= u.load[from]-2 {
			u.transfer(from, best, steps)
			return true
		}
		// Every path from a reached member leads only to reached members. None of them has at least two
		// fewer partitions than from, which has the highest load of all members that are not settled. So
		// all reached members are settled.
		for _, index := range reached {
			settled[index] = true
		}
	}
}

// step is the last step of a path to a member: a partition of the topic moves from member from to
// that member.
type step struct {
	from  int
	topic TopicID
}

// reach returns all members that can be reached by a path from a member, in order of distance,
// beginning with that member itself. It also returns the last step of the path to each of them.
func (u *uniform) reach(from int) (reached []int, steps map[int]step) {
	reached, steps = []int{from}, map[int]step{from: {from: -1}}
	seen := map[TopicID]bool{}
	for next := 0; next < len(reached); next++ {
		index := reached[next]
		for _, topic := range u.ordered[index] {
			if u.counts[index][topic] == 0 || seen[topic] {
				continue
			}
			seen[topic] = true
			for _, to := range u.subscribers[topic] {
				if _, known := steps[to]; !known {
					steps[to] = step{index, topic}
					reached = append(reached, to)
				}
			}
		}
	}
	return reached, steps
}

// transfer transfers one partition along each step of the path from one member to another.
func (u *uniform) transfer(from, to int, steps map[int]step) {
	for to != from {
		s := steps[to]
		u.setOwner(s.topic, u.selectPartition(s, to), to)
		to = s.from
	}
}

// selectPartition returns the partition of topic s.topic that member s.from gives to receiver. It
// prefers a partition that receiver owned in the previous assignment, and otherwise one that s.from
// did not own in that assignment.
func (u *uniform) selectPartition(s step, receiver int) int {
	best, rank := -1, -1
	for partition, owner := range u.owner[s.topic] {
		if owner != s.from {
			continue
		}
		r := 0
		switch u.previous[s.topic][partition] {
		case receiver:
			r = 2
		case s.from:
		default:
			r = 1
		}
		if r >= rank {
			best, rank = partition, r
		}
	}
	return best
}
