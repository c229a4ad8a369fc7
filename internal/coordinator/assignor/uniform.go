package assignor

import (
	"maps"
	"slices"
)

// Uniform gives every member as many partitions as any other, or one less, as far as subscriptions
// allow, and leaves with each as much as it can of what it had.
//
// It is a semi-matching of partitions to members. What is had and still wanted stays; what is free
// goes to the subscriber with the least; then, as long as there is a way from a member to one that
// has two fewer (who has a partition of a topic may hand it to any subscriber of the topic, who may
// hand on one of another), a partition is handed on along each step of it. A matching without such
// a way is as even as can be (Harvey, Ladner, Lovász and Tamir, "Semi-matchings for bipartite
// graphs and load balancing", 2003). Where all subscribe to the same, ways have one step, and no
// fewer partitions could change hands.
func Uniform(members []Member, topics map[TopicID]int) map[string]Assignment {
	u := newUniform(ordered(members), topics)
	u.keep()
	if u.alike() {
		u.shed()
	}
	u.handOut()
	for u.even() {
	}
	assigned := make(map[string]Assignment, len(u.members))
	for i := range u.members {
		assigned[u.members[i].ID] = Assignment{}
	}
	for _, topic := range u.order {
		for partition, at := range u.owner[topic] {
			if at >= 0 {
				a := assigned[u.members[at].ID]
				a[topic] = append(a[topic], int32(partition))
			}
		}
	}
	return assigned
}

// uniform is the state of one assignment. Members are indexes.
type uniform struct {
	members []Member
	order   []TopicID         // sorted by how few subscribers there are, then by id
	wanted  map[TopicID][]int // subscribers
	owner   map[TopicID][]int // of each partition; -1: nobody yet
	before  map[TopicID][]int // who had it
	load    []int             // partitions of each member
	counts  []map[TopicID]int // of each member, by topic
	ordered [][]TopicID       // of each member, in the order of topics, those that it subscribes to
}

func newUniform(members []Member, topics map[TopicID]int) *uniform {
	u := &uniform{
		members: members, wanted: subscribers(members, topics), owner: map[TopicID][]int{},
		before: map[TopicID][]int{},
		load:   make([]int, len(members)), counts: make([]map[TopicID]int, len(members)),
		ordered: make([][]TopicID, len(members)),
	}
	u.order = slices.SortedFunc(maps.Keys(u.wanted), func(a, b TopicID) int {
		if d := len(u.wanted[a]) - len(u.wanted[b]); d != 0 {
			return d
		}
		return compareTopics(a, b)
	})
	for i := range members {
		u.counts[i] = map[TopicID]int{}
	}
	for _, topic := range u.order {
		u.owner[topic], u.before[topic] = nobody(topics[topic]), nobody(topics[topic])
		for _, at := range u.wanted[topic] {
			u.ordered[at] = append(u.ordered[at], topic)
		}
	}
	return u
}

func nobody(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = -1
	}
	return all
}

// give makes a member the owner of a partition.
func (u *uniform) give(topic TopicID, partition, to int) {
	if from := u.owner[topic][partition]; from >= 0 {
		u.load[from]--
		u.counts[from][topic]--
	}
	u.owner[topic][partition] = to
	u.load[to]++
	u.counts[to][topic]++
}

// keep leaves with members what they had and still subscribe to. Of two who had the same, the first
// keeps it.
func (u *uniform) keep() {
	for at := range u.members {
		for _, topic := range u.ordered[at] {
			for _, partition := range u.members[at].Current[topic] {
				if partition >= 0 && int(partition) < len(u.owner[topic]) &&
					u.owner[topic][partition] < 0 {
					u.before[topic][partition] = at
					u.give(topic, int(partition), at)
				}
			}
		}
	}
}

// alike tells whether all members subscribe to the same.
func (u *uniform) alike() bool {
	for _, topic := range u.order {
		if len(u.wanted[topic]) != len(u.members) {
			return false
		}
	}
	return true
}

// shed takes from members that are all alike what is above their share at once, instead of one by
// one (even). Those that have most may have the one more that not all can have.
func (u *uniform) shed() {
	if len(u.members) == 0 {
		return
	}
	total := 0
	for _, owners := range u.owner {
		total += len(owners)
	}
	share, more := total/len(u.members), total%len(u.members)
	above := make([]int, len(u.members))
	for _, at := range u.byLoad() {
		if above[at] = u.load[at] - share; above[at] > 0 && more > 0 {
			above[at]--
			more--
		}
	}
	for _, topic := range slices.Backward(u.order) {
		for partition, at := range slices.Backward(u.owner[topic]) {
			if at >= 0 && above[at] > 0 {
				above[at]--
				u.owner[topic][partition] = -1
				u.load[at]--
				u.counts[at][topic]--
			}
		}
	}
}

// byLoad lists the members, those that have most first.
func (u *uniform) byLoad() []int {
	all := make([]int, len(u.members))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return u.load[b] - u.load[a] })
	return all
}

// handOut gives what is free to the subscriber with the least; topics with few subscribers first,
// whose partitions have less choice.
func (u *uniform) handOut() {
	for _, topic := range u.order {
		queue := newQueue(u.wanted[topic], u.load)
		for partition, owner := range u.owner[topic] {
			if owner < 0 {
				u.give(topic, partition, queue.least())
				queue.fix()
			}
		}
	}
}

// even takes one partition from a member that has too many along a way to one that has too few, and
// tells whether it could.
func (u *uniform) even() bool {
	settled := make([]bool, len(u.members)) // no way leads from these to less
	for {
		from := -1
		for at := range u.members {
			if !settled[at] && (from < 0 || u.load[at] > u.load[from]) {
				from = at
			}
		}
		if from < 0 || u.load[from] == 0 {
			return false
		}
		reached, came := u.reach(from)
		best := from
		for _, at := range reached { // the nearest come first
			if u.load[at] < u.load[best] {
				best = at
			}
		}
		if u.load[best] <= u.load[from]-2 {
			u.handOn(from, best, came)
			return true
		}
		// From what can be reached nothing else can be: and of all these from had the most.
		for _, at := range reached {
			settled[at] = true
		}
	}
}

// step is how a member was come to: by a partition of a topic from another.
type step struct {
	from  int
	topic TopicID
}

// reach lists the members that a partition's worth of load can be handed to from one, itself among
// them, in the order of their distance.
func (u *uniform) reach(from int) (reached []int, came map[int]step) {
	reached, came = []int{from}, map[int]step{from: {from: -1}}
	seen := map[TopicID]bool{}
	for next := 0; next < len(reached); next++ {
		at := reached[next]
		for _, topic := range u.ordered[at] {
			if u.counts[at][topic] == 0 || seen[topic] {
				continue
			}
			seen[topic] = true
			for _, to := range u.wanted[topic] {
				if _, known := came[to]; !known {
					came[to] = step{at, topic}
					reached = append(reached, to)
				}
			}
		}
	}
	return reached, came
}

// handOn hands one partition on along each step of the way.
func (u *uniform) handOn(from, to int, came map[int]step) {
	for to != from {
		s := came[to]
		u.give(s.topic, u.choose(s, to), to)
		to = s.from
	}
}

// choose is the partition that is handed on: one that the receiver had before, else one that its
// owner had not, else the last.
func (u *uniform) choose(s step, to int) int {
	best, rank := -1, -1
	for partition, owner := range u.owner[s.topic] {
		if owner != s.from {
			continue
		}
		r := 0
		switch u.before[s.topic][partition] {
		case to:
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
